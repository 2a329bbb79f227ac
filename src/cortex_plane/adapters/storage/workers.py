"""Workers and their leases."""

from __future__ import annotations

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.outcomes import LostRun
from cortex_plane.core.workers import Beat, NewWorker, WorkerRecord
from cortex_plane.ports.json_text import dumps


class SqlWorkers:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, worker: NewWorker) -> None:
        await self._database.write(
            "workers/register",
            id=worker.id,
            name=worker.name,
            queues=dumps(worker.queues),
            job_types=dumps(worker.job_types),
            concurrency=worker.concurrency,
            lease_seconds=worker.lease_seconds,
        )

    def beat(self, worker_id: WorkerId, timeout_seconds: float) -> Beat:
        for row in self._database.write_from_thread("workers/beat", timeout_seconds, id=worker_id):
            return Beat.DRAIN if row["draining"] else Beat.GO_ON
        return Beat.LOST

    async def drain(self, worker_id: WorkerId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _drain(worker_id, entry))

    async def leave(self, worker_id: WorkerId) -> bool:
        return bool(await self._database.write("workers/leave", id=worker_id))

    async def give_up(self, worker_id: WorkerId) -> bool:
        return bool(await self._database.write("workers/give_up", id=worker_id))

    async def declare_lost(self, by: WorkerId) -> list[tuple[WorkerId, str]]:
        found = await self._database.write("workers/declare_lost", id=by)
        return [(WorkerId(str(row["id"])), row["name"]) for row in found]

    async def lost_runs(self, limit: int) -> list[LostRun]:
        return [rows.lost_run(row) for row in await self._database.read("runs/of_lost_workers", limit=limit)]

    async def close_lost(self) -> None:
        await self._database.write("workers/close_lost")

    async def list(self, limit: int = 50) -> list[WorkerRecord]:
        return [rows.worker(row) for row in await self._database.read("workers/list", limit=limit)]


def _drain(worker_id: WorkerId, entry: AuditEntry) -> Script[bool]:
    """What changed nothing is not recorded."""
    if not (yield from ask("workers/drain", id=worker_id, actor=entry.actor, reason=entry.reason)):
        return False
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
    return True
