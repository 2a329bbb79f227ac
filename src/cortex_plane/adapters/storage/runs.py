"""Runs, one by one and those that are open."""

from __future__ import annotations

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.core.jobs import JobId, Run, RunId, TenantId

NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class SqlRuns:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job_id: JobId, run_id: RunId) -> Run | None:
        found = await self._database.read("runs/get", job_id=job_id, id=run_id)
        return rows.run(found[0]) if found else None

    async def trace(self, job_id: JobId) -> tuple[str | None, str | None]:
        for row in await self._database.read("runs/trace", id=job_id):
            return row["trace_id"], row["retried"]
        return None, None

    async def list_open(
        self, tenant_id: TenantId, *, run_id: RunId | None = None, before: RunId | None = None, limit: int = 50
    ) -> list[Run]:
        values = {"tenant_id": tenant_id, "id": run_id, "before": before or NEWER_THAN_ALL, "limit": limit}
        return [rows.run(row) for row in await self._database.read("runs/list_open", **values)]
