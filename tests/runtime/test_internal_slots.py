"""The plane's own work has slots of its own in every worker: it waits for no user's job, and keeps none waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobStatus, Submission
from cortex_plane.agents.code import AgentCode
from cortex_plane.agents.model import AgentConfig
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE, JobId, NewJob
from cortex_plane.testing import TestPlane
from cortex_plane.worker.services import RunServicesFactory
from cortex_plane.worker.worker import Worker, WorkerOptions
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, register_agent, status_becomes

pytestmark = pytest.mark.anyio

ERRAND = "cortex.errand"


@asynccontextmanager
async def worker_with_errands(
    plane: TestPlane, errand: Callable[[Context], Any], *, queues: tuple[str, ...] = ("default",), **options: Any
) -> AsyncIterator[Worker]:
    """A worker that has, besides the plane's agents, an agent in the plane's own queue."""
    store = plane.store
    await register_agent(store, AgentConfig(queue=INTERNAL_QUEUE), ERRAND)
    agents = {**plane.agents, ERRAND: AgentCode(ERRAND, errand, "async", AgentConfig(queue=INTERNAL_QUEUE))}
    services = RunServicesFactory(store, plane.directory, plane.clock, new_id, lambda: 0.5)
    worker = Worker(
        store, agents, WorkerOptions(queues, grace_seconds=0.3, **options), plane.clock, new_id, lambda: 0.5, services
    )
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(task, PATIENCE_SECONDS)


async def send_errands(plane: TestPlane, count: int = 1) -> list[JobId]:
    store = plane.store
    agent = await register_agent(store, AgentConfig(queue=INTERNAL_QUEUE), ERRAND)
    jobs = [NewJob(JobId(new_id()), DEFAULT_TENANT_ID, agent.id, ERRAND, INTERNAL_QUEUE, "{}") for _ in range(count)]
    await store.jobs.submit(jobs)
    return [job.id for job in jobs]


async def test_the_planes_own_work_does_not_wait_for_long_jobs_in_every_slot(plane: TestPlane) -> None:
    go_on, done = asyncio.Event(), asyncio.Event()

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        await go_on.wait()

    async def errand(ctx: Context) -> None:
        done.set()

    jobs = await plane.submit_many([Submission("long")] * 5)
    async with worker_with_errands(plane, errand, concurrency=2):
        await status_becomes(jobs[1], JobStatus.RUNNING)
        await send_errands(plane)
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
        go_on.set()


async def test_the_planes_own_work_does_not_wait_for_a_stream_of_higher_priority(plane: TestPlane) -> None:
    done, over = asyncio.Event(), asyncio.Event()

    @plane.agent("urgent")
    async def urgent(ctx: Context) -> None:
        if not over.is_set():
            await plane.submit("urgent", priority=1)
        await asyncio.sleep(0.01)

    async def errand(ctx: Context) -> None:
        done.set()

    await send_errands(plane)
    await plane.submit_many([Submission("urgent", priority=1)] * 4)
    async with worker_with_errands(plane, errand, concurrency=2):
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
        over.set()


async def test_users_jobs_do_not_wait_for_the_planes_own_work(plane: TestPlane) -> None:
    go_on = asyncio.Event()
    begun: list[JobId] = []

    @plane.agent("quick")
    async def quick(ctx: Context) -> str:
        return "done"

    async def errand(ctx: Context) -> None:
        begun.append(ctx.job_id)
        await go_on.wait()

    await send_errands(plane, 5)
    async with worker_with_errands(plane, errand, concurrency=1, internal_concurrency=3):
        await eventually(lambda: _is(len(begun) == 3))
        assert await (await quick.submit()).result(timeout=PATIENCE_SECONDS) == "done"
        assert len(begun) == 3  # Its own slots are limited too.
        go_on.set()
        await eventually(lambda: _is(len(begun) == 5))


async def test_a_worker_for_the_planes_own_work_alone_takes_no_users_job(plane: TestPlane) -> None:
    done = asyncio.Event()

    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    async def errand(ctx: Context) -> None:
        done.set()

    job = await quick.submit()
    async with worker_with_errands(plane, errand, queues=(), internal_concurrency=2):
        await send_errands(plane)
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
        [worker] = await plane.store.workers.list()
        assert await job.status() is JobStatus.PENDING

    assert (worker.queues, worker.job_types, worker.concurrency) == ([INTERNAL_QUEUE], [], 2)


async def test_an_internal_worker_needs_no_agents_and_says_what_does_not_fit(plane: TestPlane) -> None:
    await plane.run_worker(internal=True, until_idle=True)

    with pytest.raises(InvalidInput, match="internal"):
        await plane.run_worker(["default"], internal=True)
    with pytest.raises(InvalidInput, match="concurrency"):
        await plane.run_worker(internal=True, concurrency=0)


async def test_a_closed_gate_does_not_stop_the_planes_own_work(plane: TestPlane) -> None:
    done = asyncio.Event()

    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    async def errand(ctx: Context) -> None:
        done.set()

    await plane.gate.close("stock-taking")
    job = await quick.submit()
    async with worker_with_errands(plane, errand):
        await send_errands(plane)
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)

    assert await job.status() is JobStatus.PENDING


async def test_what_a_worker_does_for_the_plane_does_not_count_as_busy(plane: TestPlane) -> None:
    go_on = asyncio.Event()
    begun = asyncio.Event()

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        await go_on.wait()

    async def errand(ctx: Context) -> None:
        begun.set()
        await go_on.wait()

    await send_errands(plane)
    job = await long.submit()
    async with worker_with_errands(plane, errand):
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        await status_becomes(job, JobStatus.RUNNING)
        busy = await plane.workers.busy()
        go_on.set()

    assert list(busy.values()) == [1]


async def test_until_idle_does_the_planes_own_work_too(plane: TestPlane) -> None:
    from cortex_plane.webhooks.model import WEBHOOK_AGENT

    await plane.webhooks.add("http://127.0.0.1:9/hook", allow_private=True)

    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    await quick.submit()
    await plane.run_worker(until_idle=True)

    deliveries = await plane.store.jobs.list(queue=INTERNAL_QUEUE)
    assert [(delivery.job_type, delivery.attempt) for delivery in deliveries] == [(WEBHOOK_AGENT, 1)]


async def _is(fact: bool) -> bool:
    return fact
