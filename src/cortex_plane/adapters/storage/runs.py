"""Runs, one by one, those that are open, and the newest."""

from __future__ import annotations

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.jobs import NEWER_THAN_ALL, NO_DIGITS
from cortex_plane.core.jobs import JobId, Run, RunId, TenantId, WorkerId
from cortex_plane.core.states import RunStatus
from cortex_plane.ports.runs import LOOKED_AT


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

    async def find(self, prefix: str) -> list[tuple[JobId, RunId]]:
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        found = await self._database.read("runs/find", low=low, high=high, before=NEWER_THAN_ALL, looked_at=LOOKED_AT)
        return [(JobId(str(row["job_id"])), RunId(str(row["id"]))) for row in found]

    async def list(self, *, status: RunStatus | None = None, worker_id: WorkerId | None = None, limit: int = 50) -> list[Run]:
        if status is RunStatus.RUNNING:
            found = await self._database.read("runs/list_running", worker_id=worker_id, limit=limit)
        else:
            values = {"status": status, "worker_id": worker_id, "limit": limit}
            found = await self._database.read("runs/list", before=NEWER_THAN_ALL, looked_at=LOOKED_AT, **values)
        return [rows.run(row) for row in found]
