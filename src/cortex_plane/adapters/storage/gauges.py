"""What operators watch. Everything is read through what is waiting, running or open; what has ended is not looked at."""

from __future__ import annotations

from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.core.figures import Figures, Waiting
from cortex_plane.core.jobs import JobId

LATE_SECONDS = 60.0
"""A slot that is due for so long is late: a loop that looks after slots rests less than that."""


class SqlGauges:
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
        for row in await self._database.read("gauges/pick_up", id=job_id):
            return max(0.0, float(row["seconds"]))
        return None


def _waiting(row: Row) -> Waiting:
    return Waiting(row["queue"], row["state"], row["jobs"], max(0.0, float(row["seconds"])))
