"""Runs, one by one and a page at a time: places come from the index, a batch at a time, and the rest is asked of those."""

from __future__ import annotations

from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.jobs import NEWER_THAN_ALL, NO_DIGITS
from cortex_plane.core.jobs import JobId, Run, RunId, TenantId, WorkerId
from cortex_plane.core.run_pages import RunPage, RunPlace
from cortex_plane.core.states import RunStatus
from cortex_plane.ports.runs import LOOKED_AT

BATCH = 500
NEWEST = RunPlace(JobId(NEWER_THAN_ALL), RunId(NEWER_THAN_ALL))


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

    async def find(self, prefix: str) -> list[tuple[JobId, RunId]]:
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        found = await self._database.read("runs/find", low=low, high=high, before=NEWER_THAN_ALL, looked_at=LOOKED_AT)
        return [(JobId(str(row["job_id"])), RunId(str(row["id"]))) for row in found]

    async def page(
        self,
        *,
        tenant_id: TenantId | None = None,
        status: RunStatus | None = None,
        worker_id: WorkerId | None = None,
        before: RunPlace | None = None,
        limit: int = 50,
    ) -> RunPage:
        wanted = {"tenant_id": tenant_id, "worker_id": worker_id}
        if status is RunStatus.RUNNING:
            return await self._open(before or NEWEST, limit, wanted)
        return await self._any(before or NEWEST, limit, {**wanted, "status": status})

    async def _open(self, before: RunPlace, limit: int, wanted: dict[str, Any]) -> RunPage:
        read = await self._database.read("runs/list_open", before=before.run_id, limit=limit, **wanted)
        found = [rows.run(row) for row in read]
        return RunPage(found, _place(found[-1]) if len(found) == limit else None)

    async def _any(self, before: RunPlace, limit: int, wanted: dict[str, Any]) -> RunPage:
        found: list[Run] = []
        looked, batch = 0, min(2 * limit, BATCH)  # Mostly, nearly all of the newest fit.
        while looked < LOOKED_AT:
            places = await self._places(before, batch)
            found += await self._pick(before, places, limit - len(found), wanted)
            if len(found) == limit:
                more = len(places) == batch or _place(found[-1]) != places[-1]
                return RunPage(found, _place(found[-1]) if more else None)
            if len(places) < batch:
                return RunPage(found, None)
            before, looked, batch = places[-1], looked + batch, BATCH
        return RunPage(found, before)

    async def _places(self, before: RunPlace, limit: int) -> list[RunPlace]:
        read = await self._database.read("runs/places", job_id=before.job_id, id=before.run_id, limit=limit)
        return [RunPlace(JobId(str(row["job_id"])), RunId(str(row["id"]))) for row in read]

    async def _pick(self, before: RunPlace, places: list[RunPlace], limit: int, wanted: dict[str, Any]) -> list[Run]:
        if not places:
            return []
        first = {"before_job_id": before.job_id, "before_id": before.run_id}
        last = {"last_job_id": places[-1].job_id, "last_id": places[-1].run_id}
        return [rows.run(row) for row in await self._database.read("runs/pick", limit=limit, **first, **last, **wanted)]


def _place(run: Run) -> RunPlace:
    return RunPlace(run.job_id, run.id)
