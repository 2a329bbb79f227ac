"""What we need of a database for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cortex_plane.core.jobs import AgentId, HistoryEntry, Job, JobId, JobSummary, NewJob, Run
from cortex_plane.core.states import JobStatus


class Jobs(Protocol):
    async def submit(self, jobs: Sequence[NewJob], connection: Any = None) -> list[JobId]:
        """Stores them all or none; the same ids a second time change nothing. Joins the caller's transaction if given one.
        The answer differs from what was given only where a job key stands for a job that is there already."""

    async def get(self, job_id: JobId) -> Job | None: ...

    async def status(self, job_id: JobId) -> tuple[JobStatus, Any, Any, str | None] | None:
        """Status, output, error and error message."""

    async def find(self, prefix: str) -> list[JobId]:
        """At most five ids that begin with the prefix."""

    async def cancel(self, job_id: JobId, actor: str | None, reason: str | None, revision: int | None = None) -> bool:
        """False when the job is unknown or has ended, or is not at the revision that is given."""

    async def cancel_children(self, parent_id: JobId, actor: str | None, reason: str | None) -> int:
        """Those that are to end with their parent and have not ended; returns how many."""

    async def retry(self, job_id: JobId, new_id: JobId, actor: str | None) -> bool:
        """A linked job with the same work. False when the job has not ended or was retried already."""

    async def chain_end(self, job_id: JobId) -> tuple[JobId, JobStatus] | None:
        """The last retry of a job, or the job itself."""

    async def chain(self, job_id: JobId) -> list[JobSummary]:
        """The retry chain that a job belongs to, from the first job to the last; the job alone if there is no other."""

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
