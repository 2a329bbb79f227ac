"""Runs as somebody asks for them who watches. A run is kept with its job: who knows the job finds it at once."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.jobs import JobId, Run, RunId, TenantId, WorkerId
from cortex_plane.core.states import RunStatus

LOOKED_AT = 10_000
"""How many of the newest runs are looked at where no job is named: there is no index over those that have ended."""


class Runs(Protocol):
    async def get(self, job_id: JobId, run_id: RunId) -> Run | None: ...

    async def trace(self, job_id: JobId) -> tuple[str | None, str | None]:
        """What was kept of the trace that a job belongs to, and of that of the job that it retries."""

    async def list_open(
        self, tenant_id: TenantId, *, run_id: RunId | None = None, before: RunId | None = None, limit: int = 50
    ) -> list[Run]:
        """Those that have not ended, newest first; or the one that is named, if it has not."""

    async def find(self, prefix: str) -> list[tuple[JobId, RunId]]:
        """At most five whose ids begin with the prefix: of those that are open, and of the newest 10,000."""

    async def list(self, *, status: RunStatus | None = None, worker_id: WorkerId | None = None, limit: int = 50) -> list[Run]:
        """Those of the newest jobs first: all that are RUNNING if that is asked for, else of the newest 10,000 runs."""
