"""`deadline=` bounds the whole job, its waits included; `run_timeout=` bounds one run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobCancelled, JobFailed, JobStatus, Submission
from cortex_plane.clock import as_datetime
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


async def test_a_deadline_ends_a_job_that_waits_for_a_child(plane: TestPlane) -> None:
    @plane.agent("child")
    async def child(ctx: Context) -> str:
        await ctx.sleep(3600)
        return "late"

    @plane.agent("parent", deadline=60)
    async def parent(ctx: Context) -> str:
        return str(await ctx.call(child))

    job = await parent.submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    await plane.work()

    with pytest.raises(JobFailed, match="did not end before its deadline"):
        await job.result()
    assert [found.status for found in await plane.jobs.list()] == [JobStatus.FAILED] * 2


async def test_a_job_that_never_ran_is_cancelled_by_its_deadline(plane: TestPlane) -> None:
    @plane.agent("report")
    async def report(ctx: Context) -> str:
        return "never"

    job = await report.options(delay=120, deadline=timedelta(minutes=1)).submit()
    await plane.clock.advance(seconds=61)
    await plane.work()

    with pytest.raises(JobCancelled):
        await job.result()
    assert (await job.history())[-1].cause == "deadline_exceeded"


async def test_a_running_handler_is_interrupted_when_the_deadline_passes(plane: TestPlane) -> None:
    started, interrupted = asyncio.Event(), asyncio.Event()

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            interrupted.set()
            raise

    job = await long.options(deadline=1000).submit()
    async with working(plane):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await plane.clock.advance(seconds=1001)
        await asyncio.wait_for(interrupted.wait(), PATIENCE_SECONDS)

    with pytest.raises(JobFailed, match="did not end before its deadline"):
        await job.result()


async def test_a_worker_interrupts_by_itself_and_does_not_retry(plane: TestPlane) -> None:
    """The clock of the database stands still here: only the worker can know."""

    @plane.agent("long", run_timeout=60)
    async def long(ctx: Context) -> None:
        await asyncio.sleep(60)

    job = await long.options(deadline=0.2).submit()
    await plane.work()

    found = await job.job()
    assert (found.status, found.error["type"], found.retry_count) == (JobStatus.FAILED, "DeadlineExceeded", 0)


async def test_a_job_that_ends_in_time_completes(plane: TestPlane) -> None:
    @plane.agent("quick", deadline=60)
    async def quick(ctx: Context) -> str:
        await ctx.sleep(30)
        return "in time"

    job = await quick.submit()
    await plane.work()
    await plane.clock.advance(seconds=31)
    await plane.work()
    await plane.clock.advance(seconds=60)
    await plane.work()

    assert await job.result() == "in time"


async def test_a_submission_may_have_another_deadline_than_its_agent(plane: TestPlane) -> None:
    @plane.agent("quick", deadline=60)
    async def quick(ctx: Context) -> None: ...

    now = as_datetime(plane.clock.now())
    at = now + timedelta(hours=1)
    jobs = [await quick.submit(), await quick.options(deadline=5).submit(), await quick.options(deadline=at).submit()]

    deadlines = [(await job.job()).deadline_at for job in jobs]
    assert deadlines == [now + timedelta(seconds=60), now + timedelta(seconds=5), at]


async def test_a_template_has_a_deadline_for_its_jobs(plane: TestPlane) -> None:
    @plane.agent("quick", deadline=60)
    async def quick(ctx: Context) -> None: ...

    saved = await plane.templates.save("t", "quick", run_timeout=7, deadline=timedelta(minutes=5))
    job = await (await plane.templates.submit("t")).job()

    assert (saved.run_timeout_seconds, saved.deadline_seconds) == (7.0, 300.0)
    assert job.deadline_at == job.created_at + timedelta(minutes=5)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "soon", True, timedelta(0), datetime(1, 1, 1, tzinfo=UTC)])
async def test_a_wrong_deadline_is_refused_and_named(plane: TestPlane, wrong: Any) -> None:
    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    with pytest.raises(InvalidInput, match="deadline") as refused:
        await quick.options(deadline=wrong).submit()

    assert refused.value.field == "deadline"
    assert await plane.jobs.list() == []


async def test_a_deadline_before_the_job_may_begin_is_refused(plane: TestPlane) -> None:
    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    now = as_datetime(plane.clock.now())
    with pytest.raises(InvalidInput, match="later than run_at"):
        await quick.options(run_at=now + timedelta(hours=2), deadline=now + timedelta(hours=1)).submit()


async def test_an_agent_has_no_time_as_its_deadline(plane: TestPlane) -> None:
    options: dict[str, Any] = {"deadline": datetime(2030, 1, 1, tzinfo=UTC)}
    with pytest.raises(InvalidInput, match="deadline must be a number of seconds or a timedelta"):
        plane.agent("quick", **options)(lambda ctx: None)


async def test_timeout_is_refused_because_it_might_mean_either(plane: TestPlane) -> None:
    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    hint = r"Did you mean run_timeout= \(one run\) or deadline= \(the whole job\)\?"
    options: dict[str, Any] = {"timeout": 5}
    with pytest.raises(InvalidInput, match=hint):
        plane.agent("other", **options)(lambda ctx: None)
    with pytest.raises(InvalidInput, match=hint):
        quick.options(**options)
    with pytest.raises(InvalidInput, match=hint):
        await plane.submit("quick", **options)
    await plane.templates.save("t", "quick")
    with pytest.raises(InvalidInput, match=hint):
        await plane.templates.submit("t", **options)
    assert await plane.jobs.list() == []


async def test_many_deadlines_pass_at_once(plane: TestPlane) -> None:
    @plane.agent("report")
    async def report(ctx: Context) -> None: ...

    await plane.submit_many(Submission("report", delay=3600, deadline=60) for _ in range(250))
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert {found.status for found in await plane.jobs.list(limit=300)} == {JobStatus.CANCELLED}


async def test_a_request_to_people_closes_with_the_job_that_waited_for_it(plane: TestPlane) -> None:
    @plane.agent("asks", deadline=60)
    async def asks(ctx: Context) -> None:
        await ctx.approval("May I?", ttl=3600)

    job = await asks.submit()
    await plane.work()
    waiting = await job.status()
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert waiting is JobStatus.WAITING_FOR_APPROVAL
    assert (await job.job()).error["type"] == "DeadlineExceeded"
    [request] = await plane.store.approvals.list(job_id=job.id, open_only=False)
    assert not request.is_open
