"""A queue held for one job: nothing else is claimed from it, and that job runs when all its runs have ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from cortex_plane.core.jobs import JobId

ReservationId = NewType("ReservationId", str)
DEFAULT_TTL_SECONDS = 300.0


class ReservationStatus(StrEnum):
    ACTIVE = "ACTIVE"
    RELEASED = "RELEASED"
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True)
class Reservation:
    id: ReservationId
    queue: str
    job_id: JobId
    reserved_by: str
    reserved_at: datetime
    expires_at: datetime
    status: ReservationStatus
    ended_at: datetime | None
