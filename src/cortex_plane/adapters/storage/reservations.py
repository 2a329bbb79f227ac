"""Reservations of queues, each made together with the job that it is for."""

from __future__ import annotations

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.keys import submit_keyed
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import QueueBusy
from cortex_plane.core.jobs import NewJob
from cortex_plane.core.reservations import Reservation, ReservationId, ReservationStatus
from cortex_plane.ports.json_text import dumps


class SqlReservations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, reservation_id: ReservationId, job: NewJob, by: str, ttl_seconds: float) -> None:
        await self._database.transact(lambda: _reserve(reservation_id, job, by, ttl_seconds))

    async def renew(self, reservation_id: ReservationId, by: str, ttl_seconds: float) -> bool:
        return bool(await self._database.write("reservations/renew", id=reservation_id, reserved_by=by, ttl_seconds=ttl_seconds))

    async def get(self, reservation_id: ReservationId) -> Reservation | None:
        for row in await self._database.read("reservations/get", id=reservation_id):
            return rows.reservation(row)
        return None

    async def list(self) -> list[Reservation]:
        return [rows.reservation(row) for row in await self._database.read("reservations/list")]

    async def release(self, reservation_id: ReservationId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _release(reservation_id, entry))

    async def expire(self) -> int:
        if not await self._database.read("reservations/stale"):
            return 0
        return await self._database.transact(_expire)


def _reserve(reservation_id: ReservationId, job: NewJob, by: str, ttl_seconds: float) -> Script[None]:
    yield from ask("controls/lock")
    values = {"id": reservation_id, "queue": job.queue, "job_id": job.id, "reserved_by": by, "ttl_seconds": ttl_seconds}
    while not (yield from ask("reservations/add", **values)):
        for holder in (yield from ask("reservations/active", queue=job.queue)):
            raise QueueBusy(job.queue, holder["reserved_by"])  # No row: it has just been released, so try again.
    yield from submit_keyed([job])
    entry = AuditEntry("QUEUE_RESERVED", "reservation", reservation_id, actor=by, details={"queue": job.queue, "job_id": job.id})
    yield from ask("audit/record", entries=dumps([entry.to_json()]))


def _release(reservation_id: ReservationId, entry: AuditEntry) -> Script[bool]:
    if not (yield from ask("reservations/end", id=reservation_id, status=ReservationStatus.RELEASED)):
        return False
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
    yield from ask("controls/wake")
    return True


def _expire() -> Script[int]:
    """Their jobs have not begun, and nobody waits for them any more: they are cancelled."""
    stale = yield from ask("reservations/stale")
    for row in stale:
        yield from ask("reservations/end", id=str(row["id"]), status=ReservationStatus.EXPIRED)
        note = dumps({"reason": f"the reservation of {row['reserved_by']} expired"})
        yield from ask("jobs/cancel", id=str(row["job_id"]), cause="cancel", actor="reservations", note=note, revision=None)
        details = {"queue": row["queue"], "job_id": str(row["job_id"])}
        entry = AuditEntry("RESERVATION_EXPIRED", "reservation", str(row["id"]), actor=row["reserved_by"], details=details)
        yield from ask("audit/record", entries=dumps([entry.to_json()]))
    yield from ask("controls/wake")
    return len(stale)
