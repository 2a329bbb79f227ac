"""A queue that is held for one job."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import NewJob
from cortex_plane.core.reservations import Reservation, ReservationId


class Reservations(Protocol):
    async def reserve(self, reservation_id: ReservationId, job: NewJob, by: str, ttl_seconds: float) -> None:
        """Holds the job's queue for it and submits it, or raises QueueBusy and does neither."""

    async def renew(self, reservation_id: ReservationId, by: str, ttl_seconds: float) -> bool: ...

    async def get(self, reservation_id: ReservationId) -> Reservation | None: ...

    async def list(self) -> list[Reservation]:
        """Those in force."""

    async def release(self, reservation_id: ReservationId, entry: AuditEntry) -> bool: ...

    async def expire(self) -> int:
        """Ends those whose holder fell silent while their job still waited, and cancels those jobs."""
