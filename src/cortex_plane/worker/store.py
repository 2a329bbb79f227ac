"""Stores workers and their leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cortex_plane.clock import Instant, instant
from cortex_plane.jobs.model import JobId, RunId, WorkerId
from cortex_plane.json import dumps, loads
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query
from cortex_plane.worker.model import Beat, NewWorker, WorkerRecord

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.jobs.outcomes import LostRun
    from cortex_plane.storage.database import Database


class WorkerStore:
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
            process=worker.process,
        )

    def heartbeat(self, worker_id: WorkerId) -> Callable[[float], Beat]:
        """Returns a function that renews the lease for this many seconds, for any thread: LOST if the worker is not LIVE.

        It uses the connections of the event loop in which it was created."""
        session = self._database.session

        def beat(timeout_seconds: float) -> Beat:
            for row in session.write_from_thread("workers/beat", timeout_seconds, id=worker_id):
                return Beat.DRAIN if row["draining"] else Beat.GO_ON
            return Beat.LOST

        return beat

    async def drain(self, worker_id: WorkerId, entry: AuditEntry) -> bool:
        """Drains a worker: its next heartbeat reports it. False if it is not LIVE or is already draining."""
        return await self._database.transact(lambda: _drain(worker_id, entry))

    async def leave(self, worker_id: WorkerId) -> bool:
        return bool(await self._database.write("workers/leave", id=worker_id))

    async def give_up(self, worker_id: WorkerId) -> bool:
        """The worker marks itself LOST, so that others rescue its runs at once."""
        return bool(await self._database.write("workers/give_up", id=worker_id))

    async def declare_lost(self, by: WorkerId) -> list[tuple[WorkerId, str]]:
        """Every other worker whose lease has run out, now LOST: id and name."""
        found = await self._database.write("workers/declare_lost", id=by)
        return [(WorkerId(str(row["id"])), row["name"]) for row in found]

    async def processes(self, by: WorkerId, here: str) -> list[tuple[WorkerId, str, str]]:
        """The other workers that live whose process begins with this text: id, name and process."""
        found = await self._database.read("workers/processes", id=by, here=here)
        return [(WorkerId(str(row["id"])), row["name"], row["process"]) for row in found]

    async def tell_room(self, worker_id: WorkerId, has_room: bool) -> bool:
        """Notes whether it has a free slot and finds nothing to claim.
        False: not noted, because its row is locked or it has ended."""
        return bool(await self._database.write("workers/tell_room", id=worker_id, has_room=has_room))

    async def with_room(self, by: WorkerId) -> list[tuple[frozenset[str], frozenset[str]]]:
        """Other live workers that have reported free slots: the queues and the agents of each."""
        found = await self._database.read("workers/with_room", id=by)
        return [(frozenset(loads(row["queues"])), frozenset(loads(row["job_types"]))) for row in found]

    async def crashed_run(self, job_id: JobId, run_id: RunId) -> LostRun | None:
        """An open run of any worker; None if it is closed."""
        found = await self._database.read("runs/crashed", job_id=job_id, run_id=run_id)
        return rows.lost_run(found[0]) if found else None

    async def lost_runs(self, limit: int) -> list[LostRun]:
        return [rows.lost_run(row) for row in await self._database.read("runs/of_lost_workers", limit=limit)]

    async def close_lost(self) -> None:
        """Ends the rescue of lost workers that have no open run left."""
        await self._database.write("workers/close_lost")

    async def now(self) -> Instant:
        """The time that decides: the server's on PostgreSQL."""
        return instant(rows.moment((await self._database.read("workers/now"))[0]["at"]))

    async def list(self, limit: int = 50) -> list[WorkerRecord]:
        return [rows.worker(row) for row in await self._database.read("workers/list", limit=limit)]


def _drain(worker_id: WorkerId, entry: AuditEntry) -> Transaction[bool]:
    """Nothing is recorded if nothing was changed."""
    if not (yield from query("workers/drain", id=worker_id, actor=entry.actor, reason=entry.reason)):
        return False
    yield from query("audit/record", entries=dumps([entry.to_json()]))
    return True
