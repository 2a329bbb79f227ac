"""`ctx.cleanup()`: a handler that is cancelled, or runs out of time, cleans up durably before its job ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_plane import Context, DeadlineExceeded, InvalidInput, JobCancelled, JobStatus, RetryPolicy, RunStatus, TimedOut
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, status_becomes, working

pytestmark = pytest.mark.anyio


class Hotel:
    """Something outside, in which a room is reserved and released."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.reserved, self.released = asyncio.Event(), asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def reserve(self) -> str:
        self.calls.append("reserve")
        self.reserved.set()
        return "room 7"

    async def release(self) -> None:
        await self.open.wait()
        self.calls.append("release")
        self.released.set()


def register(plane: TestPlane, hotel: Hotel, wait: Any, **options: Any) -> Any:
    @plane.agent("trip", **options)
    async def trip(ctx: Context) -> str:
        async with ctx.cleanup(timeout=300):
            await ctx.tool("reserve", hotel.reserve)
            try:
                await wait(ctx)
            except (JobCancelled, TimedOut, DeadlineExceeded):
                await ctx.tool("release", hotel.release)
                raise
        return "went"

    return trip


async def for_ever(_: Context) -> None:
    await asyncio.sleep(3600)


async def in_a_step(ctx: Context) -> None:
    await ctx.step("walk", asyncio.sleep, 3600)


async def in_a_branch(ctx: Context) -> None:
    await ctx.gather(ctx.step("walk", asyncio.sleep, 3600), ctx.step("sing", asyncio.sleep, 3600))


@pytest.mark.parametrize("wait", [for_ever, in_a_step, in_a_branch])
async def test_a_running_handler_cleans_up_when_its_job_is_cancelled(plane: TestPlane, wait: Any) -> None:
    hotel = Hotel()
    hotel.open.clear()
    job = await register(plane, hotel, wait).submit()
    async with working(plane):
        await asyncio.wait_for(hotel.reserved.wait(), PATIENCE_SECONDS)
        await asyncio.sleep(0.1)
        await job.cancel("no time")
        asked = await job.job()
        hotel.open.set()
        await status_becomes(job, JobStatus.CANCELLED)

    assert hotel.calls == ["reserve", "release"]
    assert asked.cancel_requested_at is not None
    assert (asked.status, asked.label) == (JobStatus.RUNNING, "CANCELLING")
    last = (await job.history())[-1]
    assert (last.cause, last.metadata["reason"]) == ("cancel", "no time")
    assert [run.status for run in await job.runs()] == [RunStatus.CANCELLED]
    with pytest.raises(JobCancelled):
        await job.result()
    actions = [entry.entry.action for entry in await plane.store.audit.list(job.id)]
    assert actions == ["JOB_CANCEL_REQUESTED", "JOB_CANCELLED"]


async def asleep(ctx: Context) -> None:
    await ctx.sleep(86_400)


async def asking(ctx: Context) -> None:
    await ctx.approval("May I?", ttl=86_400)


async def calling(ctx: Context) -> None:
    await ctx.call("slow")


@pytest.mark.parametrize("wait", [asleep, asking, calling])
async def test_a_waiting_job_is_called_once_more_to_clean_up(plane: TestPlane, wait: Any) -> None:
    hotel = Hotel()

    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        await ctx.sleep(86_400)

    job = await register(plane, hotel, wait).submit()
    await plane.work()
    await job.cancel()
    asked = await job.job()
    await plane.work()

    assert hotel.calls == ["reserve", "release"]
    assert (asked.label, await job.status()) == ("CANCELLING", JobStatus.CANCELLED)
    requests = await plane.store.approvals.list(job_id=job.id, open_only=False)
    assert [request.outcome for request in requests] == (["cancelled"] if wait is asking else [])
    assert await plane.store.jobs.next_deadline_in() is None


async def test_a_cleanup_survives_the_death_of_its_worker(plane: TestPlane) -> None:
    hotel, told = Hotel(), []

    async def tell() -> None:
        told.append("told")

    @plane.agent("trip")
    async def trip(ctx: Context) -> None:
        async with ctx.cleanup(timeout=300):
            await ctx.tool("reserve", hotel.reserve)
            try:
                await ctx.sleep(86_400)
                await ctx.tool("tell", tell)
            except JobCancelled:
                await ctx.tool("release", hotel.release)
                await ctx.tool("tell", tell)
                raise

    job = await trip.submit()
    await plane.work()
    await job.cancel()
    plane.crash_after("release")
    await plane.work()
    crashed = await job.status()
    await plane.work()

    assert crashed is not JobStatus.CANCELLED
    assert (hotel.calls, told) == (["reserve", "release"], ["told"])
    assert await job.status() is JobStatus.CANCELLED


async def test_what_was_caught_does_not_save_the_job(plane: TestPlane) -> None:
    after: list[str] = []

    @plane.agent("stubborn")
    async def stubborn(ctx: Context) -> str:
        async with ctx.cleanup(timeout=300):
            try:
                await ctx.sleep(86_400)
            except Exception:
                await ctx.step("clean", after.append, "cleaned")
        await ctx.step("go on", after.append, "went on")
        return "done"

    job = await stubborn.submit()
    await plane.work()
    await job.cancel()
    await plane.work()

    assert after == ["cleaned"]
    assert await job.status() is JobStatus.CANCELLED


async def test_what_a_cleanup_raises_is_kept_in_the_history(plane: TestPlane) -> None:
    @plane.agent("broken")
    async def broken(ctx: Context) -> None:
        async with ctx.cleanup(timeout=300):
            try:
                await ctx.sleep(86_400)
            except JobCancelled:
                raise ValueError("the key is lost") from None

    job = await broken.submit()
    await plane.work()
    await job.cancel()
    await plane.work()

    assert (await job.job()).status is JobStatus.CANCELLED
    assert (await job.history())[-1].metadata["raised"] == "ValueError: the key is lost"


async def test_a_cleanup_that_takes_too_long_is_ended_by_its_worker(plane: TestPlane) -> None:
    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        async with ctx.cleanup(timeout=0.2):
            try:
                await ctx.sleep(86_400)
            except JobCancelled:
                await asyncio.sleep(3600)

    job = await slow.submit()
    await plane.work()
    await job.cancel()
    await plane.work()

    assert await job.status() is JobStatus.CANCELLED
    assert "0.2 s" in (await job.history())[-1].metadata["cleanup"]


async def test_a_cleanup_that_no_worker_takes_up_is_ended_by_the_clock(plane: TestPlane) -> None:
    hotel = Hotel()
    job = await register(plane, hotel, asleep).submit()
    await plane.work()
    await job.cancel("no time")
    await plane.clock.advance(seconds=301)
    await plane.store.jobs.end_overdue(10)

    last = (await job.history())[-1]
    assert (await job.status(), last.cause, last.metadata["reason"]) == (JobStatus.CANCELLED, "cleanup_timed_out", "no time")
    assert hotel.calls == ["reserve"]


async def test_a_killed_job_ends_at_once(plane: TestPlane) -> None:
    hotel = Hotel()
    job = await register(plane, hotel, asleep).submit()
    await plane.work()
    await job.cancel(mode="kill")

    assert await job.status() is JobStatus.CANCELLED
    await plane.work()
    assert hotel.calls == ["reserve"]


async def test_a_job_that_cleans_up_can_be_killed(plane: TestPlane) -> None:
    hotel = Hotel()
    job = await register(plane, hotel, asleep).submit()
    await plane.work()
    await job.cancel("first")
    await job.cancel("second")
    await job.cancel("now", mode="kill")

    assert await job.status() is JobStatus.CANCELLED
    audit = [entry.entry for entry in await plane.store.audit.list(job.id)]
    assert [(entry.action, entry.reason) for entry in audit] == [("JOB_CANCEL_REQUESTED", "first"), ("JOB_CANCELLED", "now")]


async def test_a_job_without_an_open_scope_ends_at_once(plane: TestPlane) -> None:
    @plane.agent("trip")
    async def trip(ctx: Context) -> None:
        async with ctx.cleanup():
            await ctx.step("pack", str)
        await ctx.sleep(86_400)

    job = await trip.submit()
    await plane.work()
    await job.cancel()

    assert await job.status() is JobStatus.CANCELLED


async def test_a_run_that_times_out_cleans_up_and_is_retried(plane: TestPlane) -> None:
    hotel = Hotel()
    job = await register(plane, hotel, for_ever, run_timeout=0.2, retry=RetryPolicy(max_retries=1)).submit()
    await plane.work()

    found = await job.job()
    assert hotel.calls == ["reserve", "release"]
    assert (found.status, found.error["type"], found.retry_count) == (JobStatus.RETRY, "TimedOut", 1)


@pytest.mark.parametrize("wait", [asleep, asking])
async def test_a_waiting_job_cleans_up_when_its_deadline_passes(plane: TestPlane, wait: Any) -> None:
    hotel = Hotel()
    job = await register(plane, hotel, wait, deadline=60).submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    await plane.work()

    found = await job.job()
    assert hotel.calls == ["reserve", "release"]
    assert (found.status, found.error["type"]) == (JobStatus.FAILED, "DeadlineExceeded")


async def test_a_running_job_cleans_up_when_its_deadline_passes(plane: TestPlane) -> None:
    hotel = Hotel()
    job = await register(plane, hotel, for_ever).options(deadline=0.3).submit()
    await plane.work()

    found = await job.job()
    assert hotel.calls == ["reserve", "release"]
    assert (found.status, found.error["type"]) == (JobStatus.FAILED, "DeadlineExceeded")


async def test_a_group_and_a_parent_let_their_jobs_clean_up(plane: TestPlane) -> None:
    hotel = Hotel()
    trip = register(plane, hotel, asleep)

    @plane.agent("parent")
    async def parent(ctx: Context) -> None:
        await ctx.call(trip.options(cancel_with_parent=True))

    group = await plane.groups.submit([trip.submission()])
    family = await parent.submit()
    await plane.work()
    await plane.groups.cancel(group.id)
    await family.cancel()
    await plane.work()

    assert hotel.calls == ["reserve", "reserve", "release", "release"]
    assert [found.status for found in await plane.jobs.list() if found.job_type == "trip"] == [JobStatus.CANCELLED] * 2


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "long", True])
async def test_a_wrong_timeout_is_refused(plane: TestPlane, wrong: Any) -> None:
    @plane.agent("trip", max_retries=0)
    async def trip(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match=r"ctx\.cleanup takes a timeout"):
            ctx.cleanup(timeout=wrong)

    job = await trip.submit()
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED


@pytest.mark.parametrize("wait", ["sleep", "gather", "tool"])
async def test_a_cleanup_may_use_the_names_of_what_was_interrupted(plane: TestPlane, wait: str) -> None:
    """What it does is found again after it has waited, or lost its worker."""
    calls: list[str] = []

    async def note(text: str) -> None:
        calls.append(text)
        if text == "stay":
            await asyncio.sleep(3600)

    async def stay(ctx: Context) -> None:
        match wait:
            case "sleep":
                await ctx.sleep(1000)
            case "gather":
                await ctx.gather(ctx.tool("one", note, "stay"), ctx.tool("two", note, "two"))
            case _:
                await ctx.tool("one", note, "stay")

    async def leave(ctx: Context) -> None:
        match wait:
            case "sleep":
                await ctx.sleep(3)
            case "gather":
                await ctx.gather(ctx.tool("one", note, "undo one"), ctx.tool("two", note, "undo two"))
            case _:
                await ctx.tool("one", note, "undo")
        await ctx.step("left", note, "left")

    @plane.agent("trip")
    async def trip(ctx: Context) -> None:
        async with ctx.cleanup(timeout=300):
            try:
                await stay(ctx)
            except JobCancelled:
                await leave(ctx)
                raise

    job = await trip.submit()
    if wait == "sleep":
        await plane.work()
        await job.cancel()
    else:
        plane.crash_before("left")
        worker = asyncio.create_task(plane.work())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "stay" not in calls or (wait == "gather" and "two" not in calls):
                await asyncio.sleep(0.01)
        await job.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    await plane.work()
    await plane.clock.advance(seconds=4)
    await plane.work()

    assert await job.status() is JobStatus.CANCELLED
    expected = {"sleep": [], "gather": ["stay", "two", "undo one", "undo two"], "tool": ["stay", "undo"]}[wait]
    assert calls == [*expected, "left"]


async def test_a_resumed_cleanup_is_given_its_exception_where_the_handler_waited_for_something_of_its_own(
    plane: TestPlane,
) -> None:
    calls: list[str] = []

    async def note(text: str) -> None:
        calls.append(text)

    @plane.agent("trip")
    async def trip(ctx: Context) -> None:
        async with ctx.cleanup(timeout=300):
            await ctx.tool("reserve", note, "reserve")
            await asyncio.sleep(0.001)
            try:
                calls.append("wait")
                await asyncio.sleep(3600)
            except JobCancelled:
                await ctx.step("look", note, "look")
                await asyncio.sleep(0.001)
                await ctx.tool("release", note, "release")
                raise

    job = await trip.submit()
    plane.crash_after("look")
    worker = asyncio.create_task(plane.work())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "wait" not in calls:
            await asyncio.sleep(0.01)
        await job.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await plane.work()

    assert await job.status() is JobStatus.CANCELLED
    assert calls == ["reserve", "wait", "look", "wait", "release"]
