"""What people who watch a plane ask of the database. Each question reads a bounded number of rows, however many there are."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from cortex_plane.core.events import JobEvent
from cortex_plane.core.jobs import JobId, WorkerId
from cortex_plane.core.stats import Entry, RecentFailure, RecentJob


class Stats(Protocol):
    async def recent(self, since: datetime, limit: int) -> tuple[list[RecentJob], bool]:
        """Jobs submitted since then, oldest first, found through the newest `limit` lines of history; and whether that
        was all of them. The plane's own are left out."""

    async def failures(self, since: datetime, limit: int) -> list[RecentFailure]:
        """Of the newest `limit` jobs that ended without success, those that failed; by when they were submitted."""

    async def entries(self, queue: str, job_type: str, limit: int) -> list[Entry]:
        """The first jobs of one agent in a queue that are ready, in order."""

    async def last_events(self, job_id: JobId, limit: int) -> list[JobEvent]:
        """What its runs told last, newest first."""

    async def runs_of_workers(self) -> dict[WorkerId, int]:
        """How many jobs each worker runs at this moment."""
