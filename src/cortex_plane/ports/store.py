"""What we need of a database. One contract suite, run on every implementation, is the definition of this port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.jobs import (
    AgentId,
    Claimed,
    HistoryEntry,
    Job,
    JobId,
    JobSummary,
    NewJob,
    Run,
    RunId,
    TenantId,
    WorkerId,
)
from cortex_plane.core.outcomes import BrokenJob, Checkpoint, LostRun, Transition
from cortex_plane.core.states import JobStatus
from cortex_plane.core.workers import NewWorker, WorkerRecord
from cortex_plane.ports.signals import Signals


class Jobs(Protocol):
    async def submit(self, jobs: Sequence[NewJob], connection: Any = None) -> None:
        """Stores them all or none; the same ids a second time change nothing. Joins the caller's transaction if given one."""

    async def get(self, job_id: JobId) -> Job | None: ...

    async def status(self, job_id: JobId) -> tuple[JobStatus, Any, Any, str | None] | None:
        """Status, output, error and error message."""

    async def find(self, prefix: str) -> list[JobId]:
        """At most five ids that begin with the prefix."""

    async def cancel(self, job_id: JobId, actor: str | None, reason: str | None) -> bool:
        """False when the job is unknown or has ended."""

    async def retry(self, job_id: JobId, new_id: JobId, actor: str | None) -> bool:
        """A linked job with the same work. False when the job has not ended or was retried already."""

    async def chain_end(self, job_id: JobId) -> tuple[JobId, JobStatus] | None:
        """The last retry of a job, or the job itself."""

    async def history(self, job_id: JobId) -> list[HistoryEntry]: ...

    async def runs(self, job_id: JobId) -> list[Run]: ...

    async def list(
        self,
        *,
        status: JobStatus | None = None,
        agent_id: AgentId | None = None,
        queue: str | None = None,
        before: JobId | None = None,
        limit: int = 50,
    ) -> list[JobSummary]:
        """Newest first."""


class Queue(Protocol):
    async def claim(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], run_ids: Sequence[RunId]
    ) -> list[Claimed]:
        """The best ready jobs, in order, at most one for each run id; none for a worker that is not LIVE."""

    async def open_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """Which of these runs the worker holds: the truth after a claim whose answer was lost."""

    async def finish(self, transitions: Sequence[Transition], actor: str) -> set[RunId]:
        """Applies each transition whose run is still its job's open run; returns those runs. All in one transaction."""

    async def save_checkpoints(self, checkpoints: Sequence[Checkpoint]) -> set[RunId]:
        """Saves each one whose run is still open; returns those runs. At most one for each run in a batch."""

    async def closed_runs(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, str | None]:
        """Those of the runs that are closed, with who closed them."""

    async def broken_jobs(self, limit: int) -> list[BrokenJob]:
        """Jobs that are RUNNING though their run is closed or missing. Reads all jobs: for repairs only."""

    async def open_missing_run(self, job_id: JobId) -> None: ...

    async def promote_due(self, limit: int) -> int:
        """Makes ready what has fallen due; returns how many."""

    async def settle_stuck_keys(self) -> None:
        """Frees serial keys that nobody holds though jobs wait for them."""

    async def next_due_in(self) -> float | None:
        """Seconds until the next entry falls due, negative when it has."""

    async def depths(self) -> dict[str, dict[str, int]]:
        """Entries of each queue, by state."""


class Workers(Protocol):
    async def register(self, worker: NewWorker) -> None: ...

    def beat(self, worker_id: WorkerId, timeout_seconds: float) -> bool:
        """Renews the lease; False when the worker is not LIVE. Blocking, and callable from any thread."""

    async def leave(self, worker_id: WorkerId) -> bool: ...

    async def give_up(self, worker_id: WorkerId) -> bool:
        """Declares oneself LOST, so that others rescue at once."""

    async def declare_lost(self, by: WorkerId) -> list[tuple[WorkerId, str]]:
        """Every other worker whose lease has run out, now LOST: id and name."""

    async def lost_runs(self, limit: int) -> list[LostRun]: ...

    async def close_lost(self) -> None:
        """Ends the rescue of lost workers that have no open run left."""

    async def list(self, limit: int = 50) -> list[WorkerRecord]: ...


class Agents(Protocol):
    async def register(self, agents: Sequence[AgentRecord]) -> None: ...

    async def list(self) -> list[AgentRecord]: ...


class Tenants(Protocol):
    async def find(self, name: str) -> TenantId | None: ...

    async def add(self, tenant_id: TenantId, name: str) -> None: ...


class Audit(Protocol):
    async def record(self, action: str, objects: Sequence[tuple[str, str, dict[str, Any]]], actor: str | None) -> None:
        """One entry for each object: its type, its id, and details."""

    async def list(self, object_id: str) -> list[dict[str, Any]]: ...


class Schema(Protocol):
    async def status(self) -> SchemaStatus: ...

    async def upgrade(self) -> list[str]:
        """Applies what is missing; returns the names. Any number of processes may do so at once."""


class SchemaStatus(Protocol):
    @property
    def current(self) -> int: ...
    @property
    def latest(self) -> int: ...
    @property
    def pending(self) -> Sequence[str]: ...


class Store(Protocol):
    """Opening creates the schema in an empty database; an older one is migrated or refused as the store documents."""

    @property
    def jobs(self) -> Jobs: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def agents(self) -> Agents: ...
    @property
    def tenants(self) -> Tenants: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def signals(self) -> Signals: ...
    @property
    def description(self) -> str:
        """What people are told about where the data is, without secrets."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...
