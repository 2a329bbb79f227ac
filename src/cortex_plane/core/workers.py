"""A worker as the database knows it: one start of one process, alive while it renews its lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.states import WorkerStatus

DEFAULT_LEASE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class NewWorker:
    id: WorkerId
    name: str
    queues: tuple[str, ...]
    job_types: tuple[str, ...]
    concurrency: int
    lease_seconds: float = DEFAULT_LEASE_SECONDS


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


def actor_of(worker_id: WorkerId) -> str:
    """How a worker signs history."""
    return f"worker:{worker_id}"
