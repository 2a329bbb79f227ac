"""Queries behind statistics and metrics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.jobs.model import JobId, TenantId, WorkerId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.store import event
from cortex_plane.metrics.model import Entry, Figures, RecentFailure, RecentJob, Waiting, first_id_at
from cortex_plane.storage import rows

if TYPE_CHECKING:
    from cortex_plane.jobs.events import JobEvent
    from cortex_plane.storage.database import Database, Row


class StatsStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def recent(self, since: datetime, limit: int) -> tuple[list[RecentJob], bool]:
        """Jobs submitted since then, oldest first, found through the newest `limit` lines of history; and whether that
        was all of them. The plane's own are left out."""
        found = await self._database.read("stats/recent", since=first_id_at(since), limit=limit)
        looked_at = sum(row["changes"] for row in found)
        own = [_recent(row) for row in found if row["queue"] != "cortex"]
        return own, looked_at < limit

    async def failures(self, since: datetime, limit: int) -> list[RecentFailure]:
        """Of the newest `limit` jobs that ended without success, those that failed; by when they were submitted."""
        found = await self._database.read("stats/failures", since=first_id_at(since), limit=limit)
        return [_failure(row) for row in found]

    async def entries(self, queue: str, limit: int) -> list[Entry]:
        """The first jobs of a queue that are ready, in order."""
        return [_entry(row) for row in await self._database.read("stats/entries", queue=queue, limit=limit)]

    async def last_events(self, job_id: JobId, limit: int) -> list[JobEvent]:
        """What its runs told last, newest first."""
        return [event(row) for row in await self._database.read("stats/last_events", job_id=job_id, limit=limit)]

    async def runs_of_workers(self) -> dict[WorkerId, int]:
        """How many jobs each worker runs at this moment."""
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


# -- gauges ------------------------------------------------------------------------------------
# What operators watch. Everything is read through what is waiting, running or open; what has ended is not looked at.


LATE_SECONDS = 60.0
"""A slot that is due for so long is late: a loop that looks after slots rests less than that."""


class GaugeStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def figures(self) -> Figures:
        [slots] = await self._database.read("gauges/slots", late_seconds=LATE_SECONDS)
        [plane] = await self._database.read("gauges/plane")
        running: dict[str, int] = {}
        for row in await self._database.read("queue/running"):
            running[row["queue"]] = running.get(row["queue"], 0) + row["runs"]
        return Figures(
            waiting=tuple(_waiting(row) for row in await self._database.read("gauges/waiting")),
            running=running,
            approvals=tuple(_waiting(row) for row in await self._database.read("gauges/approvals")),
            slots_late=slots["slots"],
            slots_late_seconds=float(slots["seconds"] or 0),
            workers_live=plane["workers"],
            gate_open=bool(plane["open"]),
        )

    async def pick_up_seconds(self, job_id: JobId) -> float | None:
        """How long a job was due before its first run began; None when it has not, or is gone."""
        for row in await self._database.read("gauges/pick_up", id=job_id):
            return max(0.0, float(row["seconds"]))
        return None


def _waiting(row: Row) -> Waiting:
    return Waiting(row["queue"], row["state"], row["jobs"], max(0.0, float(row["seconds"])))
