"""Runs as somebody asks for them who watches. A run is kept with its job: who knows the job finds it at once."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.jobs import JobId, Run, RunId, TenantId, WorkerId
from cortex_plane.core.run_pages import RunPage, RunPlace
from cortex_plane.core.states import RunStatus

LOOKED_AT = 10_000
"""How many runs are looked at for one answer where no job is named: there is no index over those that have ended."""


class Runs(Protocol):
    async def get(self, job_id: JobId, run_id: RunId) -> Run | None: ...

    async def trace(self, job_id: JobId) -> tuple[str | None, str | None]:
        """What was kept of the trace that a job belongs to, and of that of the job that it retries."""

    async def find(self, prefix: str) -> list[tuple[JobId, RunId]]:
        """At most five whose ids begin with the prefix: of those that are open, and of the newest 10,000."""

    async def page(
        self,
        *,
        tenant_id: TenantId | None = None,
        status: RunStatus | None = None,
        worker_id: WorkerId | None = None,
        before: RunPlace | None = None,
        limit: int = 50,
    ) -> RunPage:
        """Those of the newest jobs first, without the plane's own. Those that are RUNNING come in their own order,
        newest first; for others 10,000 are looked at for a page, which may be short and still have a next one."""
