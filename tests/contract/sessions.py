"""PostgreSQL connections that run our statements one by one, so that a test decides who commits when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg

from cortex_plane.approvals.store import ApprovalStore
from cortex_plane.durable.schema import Checkpoint
from cortex_plane.durable.store import CheckpointStore
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId, NewJob, RunId, WorkerId
from cortex_plane.jobs.outcomes import Transition
from cortex_plane.jobs.queue_store import SqlQueue
from cortex_plane.jobs.store import JobStore
from cortex_plane.storage.database import Row
from cortex_plane.storage.statements import statement
from cortex_plane.storage.transactions import Begin, Result
from tests.contract.support import Scene, run_ids

LOOK_AGAIN_SECONDS = 0.002


class Session:
    """One connection. It is a Database too, so that the real adapters speak through it."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], url: str) -> None:
        self.connection, self.url = connection, url
        self.jobs = JobStore(self)  # type: ignore[arg-type]
        self.queue = SqlQueue(self)  # type: ignore[arg-type]
        self.checkpoints = CheckpointStore(self)  # type: ignore[arg-type]
        self.approvals = ApprovalStore(self, new_id)  # type: ignore[arg-type]

    async def read(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        wanted = statement(name, "postgres")
        return await self.connection.fetch(wanted.sql, *[values[parameter] for parameter in wanted.parameters])

    write = write_small = write_batch = write_once = read
    bounds_waits = True

    async def transact(self, begin: Begin[Result], connection: Any = None, *, divisible: bool = False) -> Result:
        """Within the transaction that the test has begun, or in one of its own."""
        if self.connection.is_in_transaction():
            return await self._script(begin)
        async with self.connection.transaction():
            return await self._script(begin)

    async def _script(self, begin: Begin[Result]) -> Result:
        script = begin()
        try:
            asked = next(script)
            while True:
                asked = script.send(cast(Sequence[Row], await self.read(asked.name, **asked.values)))
        except StopIteration as end:
            result: Result = end.value
            return result

    def array(self, values: Sequence[str]) -> list[str]:
        return list(values)

    async def begin(self) -> None:
        await self.connection.execute("begin")

    async def commit(self) -> None:
        await self.connection.execute("commit")

    async def rollback(self) -> None:
        await self.connection.execute("rollback")

    async def claim(self, worker_id: WorkerId, limit: int = 10) -> list[Claimed]:
        return await self.queue.claim(worker_id, ["default"], ["echo"], run_ids(limit))

    async def finish(self, *transitions: Transition) -> set[RunId]:
        return await self.queue.finish(transitions, "test")

    async def save(self, *checkpoints: Checkpoint) -> set[RunId]:
        return await self.checkpoints.save(checkpoints)

    async def submit(self, *jobs: NewJob) -> None:
        """In a transaction that the test has begun, as in a caller's own."""
        submit = self.jobs._submit if self.connection.is_in_transaction() else self.jobs.submit
        await submit(jobs, None)

    async def cancel(self, job_id: JobId) -> bool:
        return await self.jobs.cancel(job_id, None, None) is not None

    async def beat(self, worker_id: WorkerId) -> bool:
        return bool(await self.write("workers/beat", id=worker_id))

    async def declare_lost(self, by: WorkerId) -> list[str]:
        return [str(row["id"]) for row in await self.write("workers/declare_lost", id=by)]

    async def waits(self, task: asyncio.Task[Any], seconds: float = 10.0) -> None:
        """Until the statement that `task` runs on this session waits for a lock of somebody else."""
        pid = self.connection.get_server_pid()
        watcher = await asyncpg.connect(self.url)
        try:
            async with asyncio.timeout(seconds):
                while not await watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
                    assert not task.done(), f"It did not wait, but ended with {task}"
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
        finally:
            await watcher.close()


Four = tuple[Session, Session, Session, Session]


@asynccontextmanager
async def sessions(url: str, count: int) -> AsyncIterator[list[Session]]:
    opened: list[Session] = []
    try:
        for _ in range(count):
            opened.append(Session(await asyncpg.connect(url), url))
        yield opened
    finally:
        for session in opened:
            session.connection.terminate()


async def batch(scene: Scene, count: int, **fields: Any) -> tuple[WorkerId, list[Claimed]]:
    """Jobs that one worker has claimed together."""
    for _ in range(count):
        await scene.submit(**fields)
    worker = await scene.worker()
    return worker, await scene.claim(worker, count)
