"""Code that has moved a tool call elsewhere does not repeat it, and code that has not changed is never taken for such code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Context, JobCancelled, JobStatus, StepFailed, TimedOut
from cortex_plane.testing import TestPlane
from tests.durable.test_versions import Calls

pytestmark = pytest.mark.anyio

Handler = Callable[[Context], Any]


async def plain(ctx: Context, calls: Calls) -> None:
    await ctx.tool("pay", calls.step("pay"))


async def in_a_step(ctx: Context, calls: Calls) -> None:
    async def charge() -> None:
        await ctx.tool("pay", calls.step("pay"))

    await ctx.step("charge", charge)


async def in_a_renamed_step(ctx: Context, calls: Calls) -> None:
    async def charge() -> None:
        await ctx.tool("pay", calls.step("pay"))

    await ctx.step("charge them", charge)


async def in_a_branch(ctx: Context, calls: Calls) -> None:
    await ctx.gather(ctx.tool("pay", calls.step("pay")), ctx.step("log", calls.step("log")))


async def in_another_branch(ctx: Context, calls: Calls) -> None:
    await ctx.gather(ctx.step("log", calls.step("log")), ctx.tool("pay", calls.step("pay")))


async def in_a_later_gather(ctx: Context, calls: Calls) -> None:
    await ctx.gather(ctx.step("look", calls.step("look")), ctx.step("think", calls.step("think")))
    await in_a_branch(ctx, calls)


MOVES = [
    (plain, in_a_step),
    (plain, in_a_branch),
    (in_a_step, plain),
    (in_a_branch, plain),
    (in_a_step, in_a_renamed_step),
    (in_a_branch, in_another_branch),
    (in_another_branch, in_a_branch),
    (in_a_branch, in_a_later_gather),
]


@pytest.mark.parametrize(("before", "after"), MOVES)
async def test_a_tool_that_was_moved_is_not_called_again(plane: TestPlane, before: Any, after: Any) -> None:
    calls = Calls()

    def deploy(way: Any) -> Any:
        async def shop(ctx: Context) -> str:
            await way(ctx, calls)
            await ctx.sleep(60)
            return "done"

        plane.agents.clear()
        return plane.agent("shop")(shop)

    job = await deploy(before).submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    deploy(after)
    await plane.work()
    held = await job.job()
    deploy(before)
    await plane.work()

    assert (held.wait_reason, held.error["step"]) == ("code_changed", "pay")
    assert await job.result(timeout=5) == "done"
    assert calls.count("pay") == 1


@pytest.mark.parametrize("moved", [False, True])
async def test_a_branch_that_was_moved_while_the_gather_went_on_is_not_done_again(plane: TestPlane, moved: bool) -> None:
    calls = Calls()

    def deploy(*, anew: bool) -> Any:
        async def slow() -> None:
            calls.append("slow")
            if calls.count("slow") == 1:
                await asyncio.sleep(3600)

        async def shop(ctx: Context) -> str:
            audit = [ctx.step("audit", calls.step("audit"))] if anew else []
            await ctx.gather(*audit, ctx.tool("pay", calls.step("pay")), ctx.step("slow", slow))
            return "done"

        plane.agents.clear()
        return plane.agent("shop", run_timeout=0.3)(shop)

    job = await deploy(anew=False).submit()
    await plane.work()
    await plane.clock.advance(seconds=60)
    deploy(anew=moved)
    await plane.work()

    assert calls.count("pay") == 1
    found = await job.job()
    assert (found.status, found.wait_reason) == ((JobStatus.RETRY, "code_changed") if moved else (JobStatus.COMPLETED, None))


async def test_equal_calls_of_branches_are_told_apart(plane: TestPlane) -> None:
    """Those before and after the one that failed are recorded."""
    calls = Calls()

    async def ping() -> None:
        calls.append("ping")
        if len(calls) == 2:
            raise ValueError("busy")

    @plane.agent("shop")
    async def shop(ctx: Context) -> str:
        await ctx.gather(*(ctx.tool("ping", ping) for _ in range(3)))
        return "done"

    job = await shop.submit()
    await plane.work()
    await plane.clock.advance(seconds=60)
    await plane.work()

    assert await job.result(timeout=5) == "done"
    assert len(calls) == 4


async def test_a_job_with_recorded_steps_is_not_done_again_by_a_plain_function(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("shop")
    async def shop(ctx: Context) -> str:
        await ctx.tool("pay", calls.step("pay"))
        await ctx.sleep(60)
        return "done"

    job = await shop.submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    plane.agents.clear()

    @plane.agent("shop")
    def plainly(ctx: Context) -> str:
        calls.append("pay")
        return "done"

    await plane.work()

    found = await job.job()
    assert calls == ["pay"]
    assert found.wait_reason == "code_changed"
    assert "not an async function any more" in found.error["message"]


# -- code that has not changed ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["step", "tool", "call"])
async def test_a_handler_that_undoes_what_it_did_and_fails_is_tried_again(plane: TestPlane, kind: str) -> None:
    calls = Calls()

    async def book() -> str:
        calls.append("book")
        if calls.count("book") == 1:
            raise ValueError("full")
        return "booked"

    @plane.agent("booking", max_retries=0)
    async def booking(ctx: Context) -> str:
        return await book()

    @plane.agent("trip")
    async def trip(ctx: Context) -> str:
        await ctx.tool("reserve", calls.step("reserve"))
        try:
            await (ctx.call(booking) if kind == "call" else getattr(ctx, kind)("book", book))
        except StepFailed:
            await ctx.tool("release", calls.step("release"))
            raise
        await ctx.tool("pay", calls.step("pay"))
        return "done"

    job = await trip.submit()
    await plane.work()
    await plane.clock.advance(seconds=60)
    await plane.work()

    assert await job.result(timeout=5) == "done"
    assert calls == ["reserve", "book", "release", "book", "pay"]


@pytest.mark.parametrize("ends", [1, 2])
async def test_a_handler_that_cleans_up_when_its_time_is_over_is_tried_again(plane: TestPlane, ends: int) -> None:
    calls = Calls()

    async def book() -> None:
        calls.append("book")
        if calls.count("book") <= ends:
            await asyncio.sleep(3600)

    @plane.agent("trip", run_timeout=0.3)
    async def trip(ctx: Context) -> str:
        async with ctx.cleanup():
            await ctx.tool("reserve", calls.step("reserve"))
            try:
                await ctx.step("book", book)
            except TimedOut:
                await ctx.tool("release", calls.step("release"))
                raise
            await ctx.tool("pay", calls.step("pay"))
        return "done"

    job = await trip.submit()
    for _ in range(ends + 1):
        await plane.work()
        await plane.clock.advance(seconds=60)

    assert await job.result(timeout=5) == "done"
    assert calls == ["reserve", *["book", "release"][:2], *["book"] * ends, "pay"]


async def test_a_job_that_was_cancelled_and_cleaned_up_can_be_resumed(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("trip")
    async def trip(ctx: Context) -> str:
        async with ctx.cleanup():
            await ctx.tool("reserve", calls.step("reserve"))
            try:
                await ctx.sleep(60)
            except JobCancelled:
                await ctx.tool("release", calls.step("release"))
                raise
            await ctx.tool("pay", calls.step("pay"))
        return "done"

    job = await trip.submit()
    await plane.work()
    await job.cancel()
    await plane.work()
    again = await job.resume()
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert await again.result(timeout=5) == "done"
    assert calls == ["reserve", "release", "pay"]


async def test_a_cleanup_goes_on_after_a_crash_whatever_was_recorded_in_a_gather(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("trip")
    async def trip(ctx: Context) -> None:
        async with ctx.cleanup():
            try:
                await ctx.gather(ctx.tool("reserve", calls.step("reserve")), ctx.step("walk", asyncio.sleep, 3600))
            except JobCancelled:
                await ctx.step("look", calls.step("look"))
            await ctx.tool("release", calls.step("release"))

    job = await trip.submit()
    plane.crash_after("look")
    worker = asyncio.create_task(plane.work())
    while not calls:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await job.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await plane.work()

    assert await job.status() is JobStatus.CANCELLED
    assert calls == ["reserve", "look", "release"]


async def test_what_a_failed_step_has_recorded_inside_says_nothing_about_the_place(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("shop")
    async def shop(ctx: Context) -> bool:
        async def both() -> None:
            await ctx.tool("first", calls.step("first"))
            raise ValueError("second")

        try:
            await ctx.step("both", both)
        except StepFailed:
            pass
        await ctx.step("after", calls.step("after"))
        await ctx.sleep(60)
        is_new = ctx.patched("add-scan")
        await ctx.tool("pay", calls.step("pay"))
        return is_new

    job = await shop.submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert await job.result(timeout=5) is True
    assert calls == ["first", "after", "pay"]
