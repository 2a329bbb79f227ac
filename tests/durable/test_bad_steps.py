"""Whatever the work of a step, a tool or a branch raises, its job ends with a clear error and its worker goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobStatus
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


class Closed(Exception):
    """An exception that refuses whatever is asked of it."""

    def __str__(self) -> str:
        raise SystemExit(3)

    def __reduce__(self) -> Any:
        raise RuntimeError("not to be copied")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __hash__(self) -> int:
        raise RuntimeError("not to be counted")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class Disguised(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("of no class")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit(7),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "Closed": Closed,
    "Disguised": Disguised,
}


def plain(error: str) -> None:
    raise ERRORS[error]()


async def asynchronous(error: str) -> None:
    raise ERRORS[error]()


async def in_step(ctx: Context, work: Any, error: str) -> None:
    await ctx.step("bad", work, error)


async def in_tool(ctx: Context, work: Any, error: str) -> None:
    await ctx.tool("bad", work, error)


async def in_branch(ctx: Context, work: Any, error: str) -> None:
    await ctx.gather(ctx.step("bad", work, error), ctx.step("good", sorted, [1]))


async def in_bare_branch(ctx: Context, work: Any, error: str) -> None:
    await ctx.gather(asynchronous(error), ctx.step("good", sorted, [1]))


async def in_own_task(ctx: Context, work: Any, error: str) -> None:
    await asyncio.create_task(asynchronous(error))


async def in_task_group(ctx: Context, work: Any, error: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asynchronous(error))
        tasks.create_task(asyncio.sleep(0.01))


PLACES = {place.__name__: place for place in (in_step, in_tool, in_branch, in_bare_branch, in_own_task, in_task_group)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("work", [plain, asynchronous])
async def test_no_exception_ends_or_hangs_a_worker(plane: TestPlane, place: str, work: Any) -> None:
    @plane.agent("bad", max_retries=0)
    async def bad(ctx: Context, error: str) -> None:
        await PLACES[place](ctx, work, error)

    @plane.agent("good")
    async def good(ctx: Context) -> str:
        return await ctx.step("fine", lambda: "fine")

    answers: dict[str, str] = {}
    async with working(plane, concurrency=1):
        for error in ERRORS:
            if place == "in_task_group" and error in ("CancelledError", "Disguised"):
                continue  # Python's own group lets its members be cancelled, and trips over the other one.
            job = await bad.submit(error)
            with pytest.raises(JobFailed):
                await job.result(timeout=PATIENCE_SECONDS)
            answers[error] = str((await job.job()).error_message)
            assert await (await good.submit()).result(timeout=PATIENCE_SECONDS) == "fine"

    assert all(answers.values())


async def test_an_agent_that_cancels_every_task_it_can_see_disturbs_nobody_but_itself(plane: TestPlane) -> None:
    started, let_go = asyncio.Event(), asyncio.Event()
    ready, strike, struck = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @plane.agent("neighbour")
    async def neighbour(ctx: Context) -> str:
        started.set()
        await let_go.wait()
        return await ctx.step("fine", lambda: "fine")

    @plane.agent("vandal", max_retries=0)
    async def vandal(ctx: Context) -> None:
        await ctx.step("before", sorted, [1])
        ready.set()
        await strike.wait()
        for task in asyncio.all_tasks() - of_the_test - {asyncio.current_task()}:
            task.cancel()
        struck.set()
        await asyncio.sleep(0)
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(60)

    of_the_test = asyncio.all_tasks()
    other = await neighbour.submit()
    async with working(plane):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        job = await vandal.submit()
        await ready.wait()
        strike.set()
        # A bare wait: any call with a timeout would start a task of the test for the vandal to cancel.
        await struck.wait()
        with pytest.raises(JobFailed):
            await job.result(timeout=PATIENCE_SECONDS)
        let_go.set()
        assert await other.result(timeout=PATIENCE_SECONDS) == "fine"

    assert [run.attempt for run in await other.runs()] == [1]
    assert (await job.job()).status is JobStatus.FAILED
    assert [worker.status for worker in await plane.workers.list()] == ["STOPPED"]
