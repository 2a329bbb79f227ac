"""What runs tell while they go on: appended in batches, read in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.core.events import JobEvent, Mark, NewEvent
from cortex_plane.core.jobs import JobId, RunId
from cortex_plane.ports.json_text import dumps, embedded, loads


class SqlEvents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, events: Sequence[NewEvent]) -> None:
        if events:
            await self._database.write("events/add", events=dumps([_as_json(event) for event in events]))

    async def list(self, job_id: JobId, after: int = 0, limit: int = 1000) -> list[JobEvent]:
        return [event(row) for row in await self._database.read("events/list", job_id=job_id, after=after, limit=limit)]

    async def marks(self, job_ids: Sequence[JobId]) -> dict[JobId, Mark]:
        found = await self._database.read("events/marks", ids=self._database.array(job_ids))
        return {JobId(str(row["id"])): _mark(row) for row in found}


def _mark(row: Row) -> Mark:
    return Mark(row["revision"], None if row["checkpoint_id"] is None else str(row["checkpoint_id"]), row["seq"] or 0)


def _as_json(event: NewEvent) -> dict[str, Any]:
    return {
        "job_id": event.job_id,
        "run_id": event.run_id,
        "at": event.at,
        "kind": event.kind,
        "data": embedded(event.data),
    }


def event(row: Row) -> JobEvent:
    return JobEvent(
        seq=row["seq"],
        job_id=JobId(str(row["job_id"])),
        run_id=RunId(str(row["run_id"])),
        at=rows.moment(row["at"]),
        kind=row["kind"],
        data=loads(row["data"]),
    )
