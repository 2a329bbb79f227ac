"""What the tests of the runtime share: a worker beside the test, jobs already claimed, waiting for a fact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cortex_plane import JobHandle, JobStatus, Plane
from cortex_plane.agents.model import AgentConfig, AgentRecord
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, AgentId, Claimed, JobId, NewJob, RunId, WorkerId
from cortex_plane.stores import Store
from cortex_plane.worker.model import NewWorker
from cortex_plane.worker.services import RunServicesFactory
from cortex_plane.worker.worker import Worker, WorkerOptions

PATIENCE_SECONDS = 30.0


@asynccontextmanager
async def working(plane: Plane, **options: Any) -> AsyncIterator[None]:
    """A worker of the plane runs meanwhile, and leaves in order afterwards."""
    task = asyncio.create_task(plane.run_worker(**options))
    try:
        yield
    finally:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not task.done():
                plane.stop_workers()  # Again, if the worker had not even begun.
                await asyncio.wait([task], timeout=0.1)
        await task


@asynccontextmanager
async def worker_on(plane: Plane, store: Store, **options: Any) -> AsyncIterator[Worker]:
    """A worker with the plane's agents on a store that the test has tampered with."""
    defaults = {"queues": ("default",), "lease_seconds": plane.settings.lease_seconds, "grace_seconds": 0.3}
    services = RunServicesFactory(store, plane.directory, plane.clock, new_id, lambda: 0.5)
    worker = Worker(store, plane.agents, WorkerOptions(**{**defaults, **options}), plane.clock, new_id, lambda: 0.5, services)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
        worker.stop()
        await asyncio.wait_for(task, PATIENCE_SECONDS)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(fact: Callable[[], Awaitable[Any]], seconds: float = PATIENCE_SECONDS) -> Any:
    """The first true answer; fails when none comes in time."""
    async with asyncio.timeout(seconds):
        while True:
            if answer := await fact():
                return answer
            await asyncio.sleep(0.02)


async def status_becomes(job: JobHandle[Any], *wanted: JobStatus) -> None:
    async def reached() -> bool:
        return await job.status() in wanted

    await eventually(reached)


async def line_in(path: Path) -> str:
    """What a program has written into a file, once the line is complete."""

    async def written() -> str | None:
        text = text_of(path)
        return text if text.endswith("\n") else None

    return str(await eventually(written)).strip()


def text_of(path: str | Path | None) -> str:
    """What is in a file; nothing when there is no such file."""
    return Path(path).read_text() if path and Path(path).exists() else ""


async def process_ends(pid: int) -> None:
    async def ended() -> bool:
        return not is_alive(pid)

    await eventually(ended)


def is_alive(pid: int) -> bool:
    """A zombie, which only waits to be counted, is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def register_agent(store: Store, config: AgentConfig | None = None, job_type: str = "work") -> AgentRecord:
    await store.agents.register([AgentRecord(AgentId(new_id()), job_type, config or AgentConfig())])
    return next(agent for agent in await store.agents.list() if agent.job_type == job_type)


async def submit_to(store: Store, agent: AgentRecord, count: int, max_retries: int = 3) -> list[JobId]:
    jobs = [
        NewJob(JobId(new_id()), DEFAULT_TENANT_ID, agent.id, agent.job_type, "default", "{}", max_retries=max_retries)
        for _ in range(count)
    ]
    await store.jobs.submit(jobs)
    return [job.id for job in jobs]


async def register_worker(store: Store, lease_seconds: float = 15.0) -> WorkerId:
    worker_id = WorkerId(new_id())
    await store.workers.register(NewWorker(worker_id, "test", ("default",), ("work",), 10, lease_seconds))
    return worker_id


async def claim(store: Store, worker_id: WorkerId, count: int) -> list[Claimed]:
    return await store.queue.claim(worker_id, ("default",), ("work",), [RunId(new_id()) for _ in range(count)])
