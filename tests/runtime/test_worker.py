"""What a worker does with jobs: which it takes, where they run, when it is done."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cortex_plane import Context, JobFailed, JobStatus, Plane, RunStatus, Submission
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, status_becomes, working

pytestmark = pytest.mark.anyio


async def test_a_job_is_run_once_and_its_result_is_kept(plane: TestPlane) -> None:
    @plane.agent("double")
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    job = await double.submit(number=21)
    await plane.work()

    assert await job.result() == 42
    assert [entry.new_status for entry in await job.history()] == [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED]


async def test_a_failing_job_is_retried_after_its_backoff(plane: TestPlane) -> None:
    @plane.agent("flaky", max_retries=1)
    async def flaky(ctx: Context) -> None:
        raise ValueError("not today")

    job = await flaky.submit()
    await plane.work()
    assert await job.status() is JobStatus.RETRY

    await plane.clock.advance(minutes=1)
    await plane.work()

    with pytest.raises(JobFailed, match="not today"):
        await job.result()


async def test_a_handler_knows_its_job(plane: TestPlane) -> None:
    seen: list[Context] = []

    @plane.agent("look", queue="side")
    async def look(ctx: Context) -> None:
        seen.append(ctx)

    job = await look.submit()
    await plane.work()

    (run,) = await job.runs()
    assert [(ctx.job_id, ctx.run_id, ctx.agent, ctx.queue, ctx.attempt) for ctx in seen] == [(job.id, run.id, "look", "side", 1)]


async def test_a_plain_function_runs_in_a_thread_of_its_own(plane: TestPlane) -> None:
    @plane.agent("plain")
    def plain(ctx: Context, word: str) -> list[str]:
        return [word, threading.current_thread().name]

    job = await plain.submit("hello")
    await plane.work()

    word, thread = await job.result()
    assert word == "hello"
    assert thread != threading.current_thread().name


async def test_plain_functions_run_side_by_side(plane: TestPlane) -> None:
    together = threading.Barrier(3, timeout=PATIENCE_SECONDS)

    @plane.agent("meet")
    def meet(ctx: Context) -> int:
        return together.wait()

    jobs = [await meet.submit() for _ in range(3)]
    await plane.work(concurrency=3)

    assert sorted([await job.result() for job in jobs]) == [0, 1, 2]


async def test_a_worker_runs_no_more_at_a_time_than_it_was_told(plane: TestPlane) -> None:
    running = most = 0

    @plane.agent("count")
    async def count(ctx: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    await plane.submit_many([Submission("count")] * 20)
    await plane.work(concurrency=3)

    assert most == 3
    assert len(await plane.jobs.list(status="COMPLETED")) == 20


async def test_a_worker_takes_only_jobs_whose_agent_it_has(plane: TestPlane, database_url: str) -> None:
    @plane.agent("known")
    async def known(ctx: Context) -> str:
        return "done"

    async with Plane(database_url) as other:

        @other.agent("elsewhere")
        async def elsewhere(ctx: Context) -> None: ...

        foreign = await elsewhere.submit()
    job = await known.submit()
    await plane.work()

    assert await job.result() == "done"
    assert await plane.job(foreign.id).status() is JobStatus.PENDING
    assert await plane.jobs.runs(foreign.id) == []


async def test_a_worker_takes_only_jobs_of_its_queues(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    here, there = await work.options(queue="here").submit(), await work.options(queue="there").submit()
    await plane.work(queues=["here"])

    assert await here.status() is JobStatus.COMPLETED
    assert await there.status() is JobStatus.PENDING


async def test_until_idle_also_runs_what_its_jobs_submit(plane: TestPlane) -> None:
    @plane.agent("countdown")
    async def countdown(ctx: Context, number: int) -> None:
        if number:
            await countdown.submit(number - 1)

    await countdown.submit(5)
    await plane.work()

    assert [job.status for job in await plane.jobs.list()] == [JobStatus.COMPLETED] * 6


async def test_until_idle_ends_at_once_when_there_is_nothing_to_do(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    await work.options(delay=3600).submit()

    await asyncio.wait_for(plane.work(), PATIENCE_SECONDS)


async def test_several_workers_of_one_process_share_the_jobs(plane: TestPlane) -> None:
    started: list[str] = []
    several = asyncio.Event()

    @plane.agent("share")
    async def share(ctx: Context) -> None:
        started.append(ctx.job_id)
        if len(started) == 3:  # More than one worker may have at a time.
            several.set()
        await asyncio.wait_for(several.wait(), PATIENCE_SECONDS)

    handles = await plane.submit_many([Submission("share")] * 40)
    await asyncio.gather(*(plane.work(concurrency=2, name=f"worker-{number}") for number in range(3)))

    runs = [run for handle in handles for run in await handle.runs()]
    assert sorted(started) == sorted(handle.id for handle in handles)
    assert [run.status for run in runs] == [RunStatus.COMPLETED] * 40
    assert len({run.worker_id for run in runs}) > 1


@pytest.mark.usefixtures("nobody_looks_unasked")
async def test_an_idle_worker_notices_a_new_job_at_once(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    async with working(plane):
        await (await work.submit()).result(timeout=PATIENCE_SECONDS)  # It is up, and now idle.
        await (await work.submit()).result(timeout=PATIENCE_SECONDS)


async def test_a_worker_signs_in_and_out(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    store = plane.store
    async with working(plane, name="morning", concurrency=7):
        await (await work.submit()).result(timeout=PATIENCE_SECONDS)
        (live,) = await store.workers.list()
    (gone,) = await store.workers.list()

    assert (live.name, live.status, live.concurrency, live.job_types) == ("morning", WorkerStatus.LIVE, 7, ["work"])
    assert gone.status is WorkerStatus.STOPPED
    assert gone.ended_at is not None


async def test_a_second_start_has_a_new_id(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    await plane.work()
    await plane.work()

    assert len({worker.id for worker in await plane.store.workers.list()}) == 2


async def test_a_plane_without_agents_has_no_worker(plane: TestPlane) -> None:
    with pytest.raises(InvalidInput, match="no agents"):
        await plane.work()


async def test_a_worker_refuses_a_wrong_concurrency(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    for concurrency in (0, -1, True, 1.5, "4"):
        with pytest.raises(InvalidInput, match="concurrency must be a whole number") as refusal:
            await plane.work(concurrency=concurrency)
        assert refusal.value.field == "concurrency"


async def test_a_job_cancelled_before_it_ran_is_never_started(plane: TestPlane) -> None:
    @plane.agent("work")
    async def work(ctx: Context) -> None: ...

    job = await work.submit()
    await job.cancel("changed my mind")
    await plane.work()

    await status_becomes(job, JobStatus.CANCELLED)
    assert await job.runs() == []
