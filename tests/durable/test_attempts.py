"""`ctx.attempt` counts failures and crashes; how a job that waits is shown."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane import Context, JobStatus, RetryPolicy
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


async def test_sleeps_and_children_are_no_attempts(plane: TestPlane) -> None:
    seen: list[int] = []

    @plane.agent("child")
    async def child(ctx: Context) -> None: ...

    @plane.agent("waits")
    async def waits(ctx: Context) -> None:
        seen.append(ctx.attempt)
        await ctx.sleep(60)
        await ctx.call(child)

    job = await waits.submit()
    await plane.work()
    sleeping = await job.job()
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    assert seen == [1, 1, 1]
    assert [run.attempt for run in await job.runs()] == [1, 2, 3]
    assert (sleeping.label, (await job.job()).tries) == ("SLEEPING", 1)
    assert sleeping.status_text.startswith("sleeping until ")


async def test_failures_and_crashes_are(plane: TestPlane) -> None:
    seen: list[int] = []

    @plane.agent("unlucky", retry=RetryPolicy(max_retries=3))
    async def unlucky(ctx: Context) -> None:
        seen.append(ctx.attempt)
        await ctx.step("first", int)
        if ctx.attempt == 2:
            raise ValueError("boom")
        await ctx.sleep(60)

    plane.crash_after("first")
    job = await unlucky.submit()
    await plane.work()
    await plane.work()
    failed = await job.job()
    for _ in range(2):
        await plane.clock.advance(minutes=10)
        await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    assert seen == [1, 2, 3, 3]
    assert (failed.label, failed.status_text[:12], (await job.job()).tries) == ("RETRY", "retry 1 of 3", 3)


async def test_a_worker_that_stops_in_order_costs_no_attempt(plane: TestPlane) -> None:
    seen: list[int] = []
    started = asyncio.Event()

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        seen.append(ctx.attempt)
        if len(seen) == 1:
            started.set()
            await asyncio.sleep(60)

    job = await long.submit()
    async with working(plane):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
    stopped = await job.job()
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    assert (seen, stopped.label) == ([1, 1], "RESUMING")


async def test_a_job_that_waits_for_another_names_it(plane: TestPlane) -> None:
    @plane.agent("child")
    async def child(ctx: Context) -> None:
        await ctx.sleep(60)

    @plane.agent("parent")
    async def parent(ctx: Context) -> None:
        await ctx.call(child)

    job = await parent.submit()
    await plane.work()

    listed = {found.job_type: found for found in await plane.jobs.list()}
    assert listed["parent"].status_text == f"waiting for job {listed['child'].id}"
    assert (listed["parent"].label, listed["child"].label) == ("WAITING_FOR_JOB", "SLEEPING")
    assert (await job.history())[-1].label == "WAITING_FOR_JOB"
