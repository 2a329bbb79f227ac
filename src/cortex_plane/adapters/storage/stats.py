"""What people who watch ask: bounded looks at the newest history and at the heads of queues."""

from __future__ import annotations

from datetime import datetime
from heapq import merge

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.events import event
from cortex_plane.core.events import JobEvent
from cortex_plane.core.jobs import JobId, TenantId, WorkerId
from cortex_plane.core.states import JobStatus
from cortex_plane.core.stats import Entry, RecentFailure, RecentJob, first_id_at


class SqlStats:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def recent(self, since: datetime, limit: int) -> tuple[list[RecentJob], bool]:
        found = await self._database.read("stats/recent", since=first_id_at(since), limit=limit)
        looked_at = sum(row["changes"] for row in found)
        own = [_recent(row) for row in found if row["queue"] != "cortex"]
        return own, looked_at < limit

    async def failures(self, since: datetime, limit: int) -> list[RecentFailure]:
        found = await self._database.read("stats/failures", since=first_id_at(since), limit=limit)
        return [_failure(row) for row in found]

    async def entries(self, queue: str, job_type: str, limit: int) -> list[Entry]:
        named = {"queue": queue, "job_type": job_type, "limit": limit}
        shared = [_entry(row) for row in await self._database.read("stats/entries", **named)]
        apart = [_entry(row) for row in await self._database.read("stats/entries_by_tenant", **named)]
        return list(merge(shared, apart, key=lambda entry: entry.place))[:limit]

    async def last_events(self, job_id: JobId, limit: int) -> list[JobEvent]:
        return [event(row) for row in await self._database.read("stats/last_events", job_id=job_id, limit=limit)]

    async def runs_of_workers(self) -> dict[WorkerId, int]:
        counted = await self._database.read("stats/runs_of_workers")
        return {WorkerId(str(row["worker_id"])): row["runs"] for row in counted}


def _recent(row: Row) -> RecentJob:
    return RecentJob(
        id=JobId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        job_type=row["job_type"],
        queue=row["queue"],
        status=JobStatus(row["status"]),
        created_at=rows.moment(row["created_at"]),
        started_at=rows.moment_or_none(row["started_at"]),
        ended_at=rows.moment_or_none(row["ended_at"]),
    )


def _failure(row: Row) -> RecentFailure:
    return RecentFailure(
        job_id=JobId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        job_type=row["job_type"],
        ended_at=rows.moment(row["ended_at"]),
        error_message=row["error_message"] or "",
    )


def _entry(row: Row) -> Entry:
    return Entry(
        job_id=JobId(str(row["job_id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        job_type=row["job_type"],
        priority=-row["rank"],
        position=row["position"],
        created_at=rows.moment(row["created_at"]),
        serial_key=row["serial_key"],
    )
