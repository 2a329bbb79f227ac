"""Looking for jobs by what they are like."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.job_search import JobFilter, JobPage
from cortex_plane.core.jobs import JobId


class JobSearch(Protocol):
    async def page(self, wanted: JobFilter, *, before: JobId | None = None, limit: int = 50) -> JobPage:
        """Newest first. Looks at a bounded number of jobs, whatever is asked for."""
