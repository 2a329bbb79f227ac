"""Finds jobs by what they are like: ids come from the index that fits best, a batch at a time, and the rest is asked of those."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.core.job_search import LOOKED_THROUGH, FoundJob, JobFilter, JobPage
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.json_text import loads

BATCH = 500
NEWER_THAN_ALL = JobId("ffffffff-ffff-ffff-ffff-ffffffffffff")
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

# Where jobs in a state are found without reading all the others.
SOURCE_FOR_STATUS = {
    JobStatus.PENDING: "search/waiting",
    JobStatus.RETRY: "search/waiting",
    JobStatus.RUNNING: "search/running",
    JobStatus.FAILED: "search/unsuccessful",
    JobStatus.CANCELLED: "search/unsuccessful",
}


class SqlJobSearch:
    """`as_parameter` gives an instant in the form in which the database takes one."""

    def __init__(self, database: Database, as_parameter: Callable[[datetime], Any]) -> None:
        self._database = database
        self._as_parameter = as_parameter

    async def page(self, wanted: JobFilter, *, before: JobId | None = None, limit: int = 50) -> JobPage:
        found: list[FoundJob] = []
        last, looked, batch = before or NEWER_THAN_ALL, 0, min(2 * limit, BATCH)  # Mostly, nearly all of the newest fit.
        while looked < LOOKED_THROUGH:
            ids = await self._look(wanted, last, batch)
            found += await self._pick(wanted, ids, limit - len(found))
            if len(found) == limit:
                more = len(ids) == batch or found[-1].summary.id != ids[-1]
                return JobPage(found, found[-1].summary.id if more else None)
            if len(ids) < batch:
                return JobPage(found, None)
            last, looked, batch = ids[-1], looked + batch, BATCH
        return JobPage(found, last)

    async def _look(self, wanted: JobFilter, before: JobId, batch: int) -> list[JobId]:
        source = SOURCE_FOR_STATUS.get(wanted.status) if wanted.status else None
        if source is None and wanted.agent_id is not None:
            looked = await self._database.read("search/of_agent", agent_id=wanted.agent_id, before=before, limit=batch)
        else:
            looked = await self._database.read(source or "search/all", before=before, limit=batch)
        return [JobId(str(row["id"])) for row in looked]

    async def _pick(self, wanted: JobFilter, ids: list[JobId], limit: int) -> list[FoundJob]:
        if not ids:
            return []
        picked = await self._database.read(
            "search/pick",
            ids=self._database.array(ids),
            tenant_id=wanted.tenant_id,
            status=wanted.status,
            agent_id=wanted.agent_id,
            queue=wanted.queue,
            tag=wanted.tag,
            text=wanted.text,
            since=self._as_parameter(wanted.since or FIRST_MOMENT),
            until=self._as_parameter(wanted.until or LAST_MOMENT),
            limit=limit,
        )
        return [_found(row) for row in picked]


def _found(row: Row) -> FoundJob:
    tenant_id, tags = TenantId(str(row["tenant_id"])), loads(row["tags"])
    return FoundJob(rows.job_summary(row), tenant_id, tags, row["cost_cents"], row["revision"])
