"""Cancelling a job that runs: its state moves at once, its handler is told, and what it still does is dropped."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from cortex_plane import Context, JobCancelled, JobStatus, RunStatus
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("nobody_looks_unasked")
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
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await job.cancel("not needed")
        assert await job.status() is JobStatus.CANCELLED  # At once, before the handler knows.
        await asyncio.wait_for(interrupted.wait(), PATIENCE_SECONDS)

    with pytest.raises(JobCancelled):
        await job.result()
    assert [run.status for run in await job.runs()] == [RunStatus.CANCELLED]
    assert (await job.history())[-1].metadata == {"reason": "not needed"}


@pytest.mark.usefixtures("nobody_looks_unasked")
async def test_a_cancelled_plain_function_can_see_it_as_soon(plane: TestPlane) -> None:
    started, seen = threading.Event(), threading.Event()

    @plane.agent("long")
    def long(ctx: Context) -> None:
        started.set()
        until = time.monotonic() + PATIENCE_SECONDS
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.01)
        if ctx.cancelled:
            seen.set()

    job = await long.submit()
    async with working(plane):
        assert await asyncio.to_thread(started.wait, PATIENCE_SECONDS)
        await job.cancel()
        assert await asyncio.to_thread(seen.wait, PATIENCE_SECONDS)

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
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await job.cancel()
        await asyncio.wait_for(finished.wait(), PATIENCE_SECONDS)
        after = await (await next_one.submit()).result(timeout=PATIENCE_SECONDS)

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
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await job.cancel()
        go_on.set()

    kept = await job.job()
    assert (kept.status, kept.output) == (JobStatus.CANCELLED, None)
    assert [entry.entry.action for entry in await plane.store.audit.list(job.id)] == [
        "JOB_CANCELLED",
        "STALE_WRITE",
    ]


async def test_only_the_cancelled_one_of_many_is_interrupted(plane: TestPlane) -> None:
    started: set[str] = set()
    interrupted: list[str] = []
    all_started, noticed, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @plane.agent("many")
    async def many(ctx: Context) -> str:
        started.add(ctx.job_id)
        if len(started) == 5:
            all_started.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            interrupted.append(ctx.job_id)
            noticed.set()
            raise
        return "whole"

    jobs = [await many.submit() for _ in range(5)]
    async with working(plane):
        await asyncio.wait_for(all_started.wait(), PATIENCE_SECONDS)
        await jobs[2].cancel()
        await asyncio.wait_for(noticed.wait(), PATIENCE_SECONDS)
        go_on.set()
        rest = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs if job is not jobs[2]]

    assert interrupted == [jobs[2].id]
    assert rest == ["whole"] * 4
    assert await jobs[2].status() is JobStatus.CANCELLED


async def test_the_slot_of_a_cancelled_plain_function_is_free_when_it_returns(plane: TestPlane) -> None:
    started, noticed, let_go = threading.Event(), threading.Event(), threading.Event()

    @plane.agent("deaf")
    def deaf(ctx: Context) -> None:
        started.set()
        while not ctx.cancelled and not let_go.is_set():
            time.sleep(0.01)
        noticed.set()
        let_go.wait(PATIENCE_SECONDS)

    @plane.agent("next")
    def next_one(ctx: Context) -> str:
        return "ran"

    first = await deaf.submit()
    async with working(plane, concurrency=1):
        assert await asyncio.to_thread(started.wait, PATIENCE_SECONDS)
        await first.cancel()
        second = await next_one.submit()
        assert await asyncio.to_thread(noticed.wait, PATIENCE_SECONDS)
        await asyncio.sleep(0.3)  # Time enough to take the next one, if the slot were free while the thread is still busy.
        meanwhile = await second.status()
        let_go.set()
        answer = await second.result(timeout=PATIENCE_SECONDS)

    assert meanwhile is JobStatus.PENDING
    assert answer == "ran"
