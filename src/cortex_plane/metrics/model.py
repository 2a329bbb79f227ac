"""Statistics of recent jobs, and the load at this moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cortex_plane.clock import EPOCH
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.states import JobStatus

WINDOW = timedelta(hours=1)
SHORTEST_WINDOW = timedelta(minutes=5)
COLUMNS = 60
SHORTEST_COLUMN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RecentJob:
    """`started_at` is when its first run began."""

    id: JobId
    tenant_id: TenantId
    job_type: str
    queue: str
    status: JobStatus
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecentFailure:
    job_id: JobId
    tenant_id: TenantId
    job_type: str
    ended_at: datetime
    error_message: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that could be claimed, as it stands in its queue."""

    job_id: JobId
    tenant_id: TenantId
    job_type: str
    priority: int
    position: int
    created_at: datetime
    serial_key: str | None

    @property
    def place(self) -> tuple[int, int, datetime, str]:
        return -self.priority, self.position, self.created_at, self.job_id


@dataclass(frozen=True, slots=True)
class Column:
    """Jobs that were submitted in one stretch of time, by what has become of them."""

    since: datetime
    counts: dict[JobStatus, int]
    wait_seconds: float | None
    """How long half of those that began had waited at most."""

    @property
    def submitted(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Load:
    since: datetime
    until: datetime
    columns: list[Column] = field(repr=False)
    submitted: int
    ended: int
    failed: int
    wait_seconds: Percentiles
    run_seconds: Percentiles

    @property
    def ended_per_second(self) -> float:
        return self.ended / max((self.until - self.since).total_seconds(), 1.0)


@dataclass(frozen=True, slots=True)
class Percentiles:
    half: float | None
    most: float | None
    """What 95 of 100 do not exceed."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Percentiles:
        ordered = sorted(values)
        return cls(_at(ordered, 0.5), _at(ordered, 0.95))


@dataclass(frozen=True, slots=True)
class FailingAgent:
    agent: str
    failures: int
    last: RecentFailure


def load_of(jobs: Sequence[RecentJob], now: datetime, *, complete: bool) -> Load:
    """Of the last hour; of a shorter time where the first job came later, or where not all of that hour was looked at."""
    since = now - WINDOW
    if jobs:
        first = min(job.created_at for job in jobs)
        since = max(since, min(first, now - SHORTEST_WINDOW) if complete else first)
    width = max((now - since) / COLUMNS, SHORTEST_COLUMN)
    seen = [job for job in jobs if job.created_at >= since]
    return Load(
        since=since,
        until=now,
        columns=_columns(seen, since, now, width),
        submitted=len(seen),
        ended=sum(1 for job in seen if job.status.is_terminal),
        failed=sum(1 for job in seen if job.status is JobStatus.FAILED),
        wait_seconds=Percentiles.of(_waits(seen)),
        run_seconds=Percentiles.of(_runs(seen)),
    )


def failing_agents(failures: Sequence[RecentFailure]) -> list[FailingAgent]:
    """The most failing first."""
    newest: dict[str, RecentFailure] = {}
    for failure in sorted(failures, key=lambda failure: failure.ended_at):
        newest[failure.job_type] = failure
    counted = Counter(failure.job_type for failure in failures)
    return [
        FailingAgent(agent, count, newest[agent]) for agent, count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    ]


def first_id_at(moment: datetime) -> JobId:
    """The smallest id that a job of that moment can have: ids begin with the time in milliseconds."""
    milliseconds = max((moment - EPOCH) // timedelta(milliseconds=1), 0)
    digits = f"{milliseconds:012x}"
    return JobId(f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000")


def moment_in(job_id: JobId) -> datetime:
    """The time with which an id begins."""
    return EPOCH + timedelta(milliseconds=int(job_id.replace("-", "")[:12], 16))


def _columns(jobs: Sequence[RecentJob], since: datetime, now: datetime, width: timedelta) -> list[Column]:
    count = min(max(-(-(now - since) // width), 1), COLUMNS)
    sorted_in: list[list[RecentJob]] = [[] for _ in range(count)]
    for job in jobs:
        sorted_in[min((job.created_at - since) // width, count - 1)].append(job)
    return [
        Column(since + number * width, dict(Counter(job.status for job in column)), Percentiles.of(_waits(column)).half)
        for number, column in enumerate(sorted_in)
    ]


def _waits(jobs: Iterable[RecentJob]) -> list[float]:
    return [max((job.started_at - job.created_at).total_seconds(), 0.0) for job in jobs if job.started_at]


def _runs(jobs: Iterable[RecentJob]) -> list[float]:
    return [(job.ended_at - job.started_at).total_seconds() for job in jobs if job.started_at and job.ended_at]


def _at(ordered: Sequence[float], share: float) -> float | None:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


# -- figures -----------------------------------------------------------------------------------
# How much there is to do at this moment, in all tenants: what an operator watches.


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs of one queue in one state; how long ago the oldest of them was due, or asked for a decision."""

    queue: str
    state: str
    jobs: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Only of what goes on: what has ended is counted by those who end it."""

    waiting: tuple[Waiting, ...]
    running: dict[str, int]
    approvals: tuple[Waiting, ...]
    slots_late: int
    slots_late_seconds: float
    workers_live: int
    gate_open: bool
