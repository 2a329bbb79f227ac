"""A worker in the database: one start of one process, LIVE while it renews its lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from cortex_plane.jobs.model import WorkerId
from cortex_plane.jobs.states import WorkerStatus

DEFAULT_LEASE_SECONDS = 15.0
DEFAULT_INTERNAL_CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class NewWorker:
    id: WorkerId
    name: str
    queues: tuple[str, ...]
    job_types: tuple[str, ...]
    concurrency: int
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    process: str | None = None
    """Identifies its process on its machine, if the system allows it."""


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    id: WorkerId
    name: str
    status: WorkerStatus
    queues: list[str]
    job_types: list[str]
    concurrency: int
    started_at: datetime
    heartbeat_at: datetime
    lease_until: datetime
    ended_at: datetime | None
    drain_asked_at: datetime | None = None
    drain_asked_by: str | None = None
    drain_reason: str | None = None

    @property
    def takes_jobs(self) -> bool:
        return self.status is WorkerStatus.LIVE and self.drain_asked_at is None

    @property
    def draining(self) -> bool:
        """It finishes its jobs, claims nothing more, and then stops."""
        return self.status is WorkerStatus.LIVE and self.drain_asked_at is not None

    @property
    def standing(self) -> str:
        """Its status as shown to people: a drained worker is told apart from a stopped one."""
        if self.drain_asked_at is None:
            return self.status
        return {WorkerStatus.LIVE: "DRAINING", WorkerStatus.STOPPED: "DRAINED"}.get(self.status, self.status)


class Beat(IntEnum):
    """The answers to a heartbeat. Only LOST is false."""

    LOST = 0
    GO_ON = 1
    DRAIN = 2


def actor_of(worker_id: WorkerId) -> str:
    """How a worker signs history."""
    return f"worker:{worker_id}"
