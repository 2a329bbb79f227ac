"""Reservations: run one job now, alone, ahead of its queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import Conflict, Denied, InvalidInput, NotFound, QueueBusy, ResultNotReady
from cortex_plane.jobs.lookup import await_result
from cortex_plane.jobs.store import submit_keyed
from cortex_plane.json import dumps
from cortex_plane.queues.model import DEFAULT_TTL_SECONDS, Reservation, ReservationId, ReservationStatus
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.model import NewJob
    from cortex_plane.storage.database import Database
    from cortex_plane.stores import Store


class ReservationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, reservation_id: ReservationId, job: NewJob, by: str, ttl_seconds: float) -> None:
        """Holds the job's queue for it and submits it, or raises QueueBusy and does neither."""
        await self._database.transact(lambda: _reserve(reservation_id, job, by, ttl_seconds))

    async def renew(self, reservation_id: ReservationId, by: str, ttl_seconds: float) -> bool:
        return bool(await self._database.write("reservations/renew", id=reservation_id, reserved_by=by, ttl_seconds=ttl_seconds))

    async def get(self, reservation_id: ReservationId) -> Reservation | None:
        for row in await self._database.read("reservations/get", id=reservation_id):
            return rows.reservation(row)
        return None

    async def list(self) -> list[Reservation]:
        """Returns the active reservations."""
        return [rows.reservation(row) for row in await self._database.read("reservations/list")]

    async def release(self, reservation_id: ReservationId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _release(reservation_id, entry))

    async def expire(self) -> int:
        """Ends reservations that were not renewed before their job began, and cancels those jobs. Returns how many."""
        if not await self._database.read("reservations/stale"):
            return 0
        return await self._database.transact(_expire)


def _reserve(reservation_id: ReservationId, job: NewJob, by: str, ttl_seconds: float) -> Transaction[None]:
    yield from query("controls/lock")
    values = {"id": reservation_id, "queue": job.queue, "job_id": job.id, "reserved_by": by, "ttl_seconds": ttl_seconds}
    while not (yield from query("reservations/add", **values)):
        for holder in (yield from query("reservations/active", queue=job.queue)):
            raise QueueBusy(job.queue, holder["reserved_by"])  # No row: it has just been released, so try again.
    yield from submit_keyed([job])
    entry = AuditEntry("QUEUE_RESERVED", "reservation", reservation_id, actor=by, details={"queue": job.queue, "job_id": job.id})
    yield from query("audit/record", entries=dumps([entry.to_json()]))


def _release(reservation_id: ReservationId, entry: AuditEntry) -> Transaction[bool]:
    if not (yield from query("reservations/end", id=reservation_id, status=ReservationStatus.RELEASED)):
        return False
    yield from query("audit/record", entries=dumps([entry.to_json()]))
    yield from query("controls/wake")
    return True


def _expire() -> Transaction[int]:
    """Cancels the jobs too: they have not begun, and their caller is gone."""
    stale = yield from query("reservations/stale")
    for row in stale:
        yield from query("reservations/end", id=str(row["id"]), status=ReservationStatus.EXPIRED)
        note = dumps({"reason": f"the reservation of {row['reserved_by']} expired"})
        yield from query(
            "jobs/cancel", id=str(row["job_id"]), cause="cancel", actor="reservations", note=note, revision=None, kill=True
        )
        details = {"queue": row["queue"], "job_id": str(row["job_id"])}
        entry = AuditEntry("RESERVATION_EXPIRED", "reservation", str(row["id"]), actor=row["reserved_by"], details=details)
        yield from query("audit/record", entries=dumps([entry.to_json()]))
    yield from query("controls/wake")
    return len(stale)


# -- run now -----------------------------------------------------------------------------------
# Runs one job ahead of its queue: reserves the queue, waits for its running jobs, runs the job alone, returns its result.


LOOK_SECONDS = 0.2
LONGEST_TTL_SECONDS = 3600.0


async def run_now(
    store: Store,
    clock: Clock,
    new_id: NewId,
    job: NewJob,
    *,
    by: str,
    wait: bool = True,
    timeout: float | None = None,
    ttl_seconds: float = DEFAULT_TTL_SECONDS,
) -> Any:
    """Runs a job now and returns its result. With `wait`, waits while the queue is reserved by another caller; otherwise raises
    QueueBusy. If the caller exits before the job begins, the reservation expires and the job is cancelled."""
    _check(job, ttl_seconds)
    reservation_id = ReservationId(new_id())
    await _reserve_queue(store, clock, reservation_id, job, by, ttl_seconds, wait, timeout)
    renewing = asyncio.create_task(_renew(store, clock, reservation_id, by, ttl_seconds), name="cortex-reservation")
    try:
        return await await_result(store, clock, job.id, timeout)
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def release(
    store: Store, reservation_id: ReservationId, *, by: str, reason: str | None = None, force: bool = False
) -> None:
    """Ends a reservation. `by` must be its holder, unless `force` is set. The job keeps its place in the queue."""
    found = await store.reservations.get(reservation_id)
    if found is None:
        raise NotFound(f"There is no reservation {reservation_id}.")
    if found.reserved_by != by and not force:
        raise Denied(f"Reservation {reservation_id} is held by {found.reserved_by}, not by {by}. An operator may use force.")
    details = {"queue": found.queue, "job_id": found.job_id, "force": force}
    entry = AuditEntry("RESERVATION_RELEASED", "reservation", reservation_id, by, reason, details=details)
    if not await store.reservations.release(reservation_id, entry):
        raise Conflict(f"Reservation {reservation_id} is {found.status} already.")


def _check(job: NewJob, ttl_seconds: float) -> None:
    if job.run_at is not None or job.delay_seconds is not None:
        raise InvalidInput("A job that runs now has no run_at and no delay.", field="run_at")
    if not 1 <= ttl_seconds <= LONGEST_TTL_SECONDS:
        raise InvalidInput(f"ttl must be from 1 to {LONGEST_TTL_SECONDS:g} seconds, not {ttl_seconds!r}.", field="ttl")


async def _reserve_queue(
    store: Store,
    clock: Clock,
    reservation_id: ReservationId,
    job: NewJob,
    by: str,
    ttl_seconds: float,
    wait: bool,
    timeout: float | None,
) -> None:
    since = clock.elapsed()
    while True:
        try:
            await store.reservations.expire()
            await store.reservations.reserve(reservation_id, job, by, ttl_seconds)
            return
        except QueueBusy:
            if not wait:
                raise
            if timeout is not None and clock.elapsed() - since > timeout:
                raise ResultNotReady(job.id, "waiting for the queue", timeout) from None
        await asyncio.sleep(LOOK_SECONDS)


async def _renew(store: Store, clock: Clock, reservation_id: ReservationId, by: str, ttl_seconds: float) -> None:
    while await store.reservations.renew(reservation_id, by, ttl_seconds):
        await clock.sleep(ttl_seconds / 3)
