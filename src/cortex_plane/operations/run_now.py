"""Runs one job ahead of its queue: reserves the queue, lets what runs there end, runs the job alone, answers with its result."""

from __future__ import annotations

import asyncio
from typing import Any

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import Conflict, Denied, InvalidInput, NotFound, QueueBusy, ResultNotReady
from cortex_plane.core.jobs import NewJob
from cortex_plane.core.reservations import DEFAULT_TTL_SECONDS, ReservationId
from cortex_plane.operations.await_result import await_result
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store

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
    """With `wait`, waits for the turn while others hold the queue; without, raises QueueBusy at once.
    If the caller goes away before the job has begun, the reservation expires and the job is cancelled."""
    _check(job, ttl_seconds)
    reservation_id = ReservationId(new_id())
    await _reserve(store, clock, reservation_id, job, by, ttl_seconds, wait, timeout)
    renewing = asyncio.create_task(_renew(store, clock, reservation_id, by, ttl_seconds), name="cortex-reservation")
    try:
        return await await_result(store, clock, job.id, timeout)
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def release(
    store: Store, reservation_id: ReservationId, *, by: str, reason: str | None = None, force: bool = False
) -> None:
    """Only its holder releases a reservation, or an operator by force. The job stays, in its place in the queue."""
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


async def _reserve(
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
