"""Cancelling a job that runs: its state moves at once, its handler is told, and what it still does is dropped."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from cortex_plane import Context, JobCancelled, JobStatus, RunStatus
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import status_becomes, working

pytestmark = pytest.mark.anyio

# On a quiet machine a quarter of a second; without a signal it would be five.
NOTICED_SECONDS = 2.0


async def test_a_running_handler_is_interrupted_without_waiting_for_the_next_look(plane: TestPlane) -> None:
    started, interrupted = asyncio.Event(), asyncio.Event()

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert ctx.cancelled
            interrupted.set()
            raise

    job = await long.submit()
    async with working(plane):
        await asyncio.wait_for(started.wait(), 10)
        await job.cancel("not needed")
        assert await job.status() is JobStatus.CANCELLED  # At once, before the handler knows.
        await asyncio.wait_for(interrupted.wait(), NOTICED_SECONDS)

    with pytest.raises(JobCancelled):
        await job.result()
    assert [run.status for run in await job.runs()] == [RunStatus.CANCELLED]
    assert (await job.history())[-1].metadata == {"reason": "not needed"}


async def test_a_cancelled_plain_function_can_see_it_as_soon(plane: TestPlane) -> None:
    started, seen = threading.Event(), threading.Event()

    @plane.agent("long")
    def long(ctx: Context) -> None:
        started.set()
        until = time.monotonic() + 10
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.01)
        seen.set()

    job = await long.submit()
    async with working(plane):
        assert await asyncio.to_thread(started.wait, 10)
        await job.cancel()
        assert await asyncio.to_thread(seen.wait, NOTICED_SECONDS)

    assert await job.status() is JobStatus.CANCELLED


async def test_a_cancelled_job_ignores_a_late_result(plane: TestPlane) -> None:
    started, finished = asyncio.Event(), asyncio.Event()

    @plane.agent("stubborn")
    async def stubborn(ctx: Context) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            finished.set()
        return "too late"

    @plane.agent("next")
    async def next_one(ctx: Context) -> str:
        return "fine"

    job = await stubborn.submit()
    async with working(plane, concurrency=1):
        await asyncio.wait_for(started.wait(), 10)
        await job.cancel()
        await asyncio.wait_for(finished.wait(), 5)
        after = await (await next_one.submit()).result(timeout=5)

    kept = await job.job()
    assert (kept.status, kept.output) == (JobStatus.CANCELLED, None)
    assert [entry.new_status for entry in await job.history()][-1] is JobStatus.CANCELLED
    assert after == "fine"


async def test_a_result_that_comes_before_the_worker_hears_of_the_cancel_is_dropped_and_audited(plane: TestPlane) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @plane.agent("racing")
    async def racing(ctx: Context) -> str:
        started.set()
        await go_on.wait()
        return "a moment too late"

    job = await racing.submit()
    async with working(plane):
        await asyncio.wait_for(started.wait(), 10)
        await job.cancel()
        go_on.set()

    kept = await job.job()
    assert (kept.status, kept.output) == (JobStatus.CANCELLED, None)
    assert [entry.entry.action for entry in await (await plane.store).audit.list(job.id)] == [
        "JOB_CANCELLED",
        "STALE_WRITE",
    ]


async def test_only_the_cancelled_one_of_many_is_interrupted(plane: TestPlane) -> None:
    started: set[str] = set()
    go_on = asyncio.Event()

    @plane.agent("many")
    async def many(ctx: Context) -> str:
        started.add(ctx.job_id)
        await go_on.wait()
        return "whole"

    jobs = [await many.submit() for _ in range(5)]
    async with working(plane):
        await status_becomes(jobs[-1], JobStatus.RUNNING)
        await jobs[2].cancel()
        await asyncio.sleep(0.6)  # Long enough for the worker to notice.
        go_on.set()
        rest = [await job.result(timeout=10) for job in jobs if job is not jobs[2]]

    assert rest == ["whole"] * 4
    assert await jobs[2].status() is JobStatus.CANCELLED


async def test_the_slot_of_a_cancelled_plain_function_is_free_when_it_returns(plane: TestPlane) -> None:
    started, let_go = threading.Event(), threading.Event()

    @plane.agent("deaf")
    def deaf(ctx: Context) -> None:
        started.set()
        let_go.wait(10)

    @plane.agent("next")
    def next_one(ctx: Context) -> str:
        return "ran"

    first = await deaf.submit()
    async with working(plane, concurrency=1):
        assert await asyncio.to_thread(started.wait, 10)
        await first.cancel()
        second = await next_one.submit()
        await asyncio.sleep(1.0)  # The worker has noticed; the thread is still busy.
        meanwhile = await second.status()
        let_go.set()
        answer = await second.result(timeout=10)

    assert meanwhile is JobStatus.PENDING
    assert answer == "ran"
