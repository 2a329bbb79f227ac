"""A handler may take so long and no longer, counted from its own first line."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from cortex_plane import Context, JobFailed, JobStatus, RunStatus
from cortex_plane.testing import TestPlane
from cortex_plane.worker.slots import SlotPool
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


async def test_an_async_handler_is_interrupted_when_its_time_is_up(plane: TestPlane) -> None:
    interrupted: list[str] = []

    @plane.agent("slow", run_timeout=0.1, max_retries=0)
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            interrupted.append(ctx.job_id)
            raise

    job = await slow.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"did not finish within 0\.1 s"):
        await job.result()
    assert interrupted == [job.id]
    assert (await job.job()).error["type"] == "TimedOut"
    assert [run.status for run in await job.runs()] == [RunStatus.FAILED]


@pytest.mark.parametrize("timeout", [0.1, timedelta(milliseconds=100)])
async def test_a_job_may_have_a_limit_of_its_own(plane: TestPlane, timeout: float | timedelta) -> None:
    @plane.agent("slow", run_timeout=60, max_retries=0)
    async def slow(ctx: Context) -> None:
        await asyncio.sleep(60)

    job = await slow.options(run_timeout=timeout).submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"within 0\.1 s"):
        await job.result()


async def test_a_timeout_costs_a_retry(plane: TestPlane) -> None:
    @plane.agent("slow", run_timeout=0.1, max_retries=1)
    async def slow(ctx: Context) -> str:
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return "in time"

    job = await slow.submit()
    await plane.work()
    waiting = await job.job()
    await plane.clock.advance(minutes=1)
    await plane.work()

    assert (waiting.status, waiting.retry_count) == (JobStatus.RETRY, 1)
    assert await job.result() == "in time"


async def test_a_plain_function_is_told_that_its_time_is_up(plane: TestPlane) -> None:
    told = threading.Event()

    @plane.agent("slow", run_timeout=0.1, max_retries=0)
    def slow(ctx: Context) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.01)
        if ctx.cancelled:
            told.set()

    job = await slow.submit()
    await plane.work()

    with pytest.raises(JobFailed, match="did not finish"):
        await job.result()
    assert await asyncio.to_thread(told.wait, PATIENCE_SECONDS)


async def test_a_handlers_own_timeout_error_is_not_the_workers(plane: TestPlane) -> None:
    @plane.agent("upstream", run_timeout=60, max_retries=0)
    async def upstream(ctx: Context) -> None:
        raise TimeoutError("the bank did not answer")

    job = await upstream.submit()
    await plane.work()

    assert (await job.job()).error["type"] == "TimeoutError"
    with pytest.raises(JobFailed, match="the bank did not answer"):
        await job.result()


async def test_waiting_for_a_slot_does_not_count(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        SlotPool, "_ahead", lambda pool: 3 if pool._pace else 0
    )  # They are claimed at once, and wait inside the worker.

    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        await asyncio.sleep(1.8)

    @plane.agent("quick", run_timeout=1.5, max_retries=0)
    async def quick(ctx: Context) -> None:
        await asyncio.sleep(0)

    jobs = [await slow.submit(), await quick.submit(), await quick.submit()]
    await plane.work(concurrency=1)

    assert [await job.status() for job in jobs] == [JobStatus.COMPLETED] * 3


async def test_waiting_for_a_thread_that_an_earlier_job_still_holds_does_not_count(plane: TestPlane) -> None:
    @plane.agent("deaf", run_timeout=0.2, max_retries=0)
    def deaf(ctx: Context) -> None:
        time.sleep(1.5)  # Long after its time is up: nobody can interrupt a thread.

    @plane.agent("quick", run_timeout=1.0, max_retries=0)
    def quick(ctx: Context) -> str:
        return "in time"

    first, second = await deaf.submit(), await quick.submit()
    async with working(plane, concurrency=1):
        with pytest.raises(JobFailed, match="did not finish"):
            await first.result(timeout=PATIENCE_SECONDS)
        answer = await second.result(timeout=PATIENCE_SECONDS)

    assert answer == "in time"
