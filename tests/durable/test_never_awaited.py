"""What a handler asks for and never awaits did not happen, so its job fails, and says which call it was."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from cortex_plane import Context, JobStatus
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def work(number: int = 0) -> int:
    return number


FORGOTTEN = {
    'ctx.step("a")': lambda ctx: ctx.step("a", work),
    'ctx.step("b")': lambda ctx: ctx.step("b", timeout=5)(work, 1),
    'ctx.step("c")': lambda ctx: ctx.step("c", timeout=5)(work),
    'ctx.tool("refund")': lambda ctx: ctx.tool("refund", work, 3),
    'ctx.tool("pay")': lambda ctx: ctx.tool("pay", on_uncertain="rerun")(work),
    'ctx.llm("ask")': lambda ctx: ctx.llm("ask", work),
    "ctx.approval('Deploy?')": lambda ctx: ctx.approval("Deploy?"),
    "ctx.artifact(…, 'a.bin')": lambda ctx: ctx.artifact(b"bytes", "a.bin"),
    "ctx.sleep(…)": lambda ctx: ctx.sleep(3),
    "ctx.sleep_until(…)": lambda ctx: ctx.sleep_until(ctx.now()),
    "ctx.call('other')": lambda ctx: ctx.call("other"),
    "ctx.group('night')": lambda ctx: ctx.group("night", []),
    "ctx.gather(…)": lambda ctx: ctx.gather(ctx.step("a", work), work()),
    'ctx.step("d")': lambda ctx: ctx.step("d", timeout=5)(local_work()),
    'ctx.tool("e")': lambda ctx: ctx.tool("e", on_uncertain="rerun")(lambda: 1),
}


def local_work() -> Any:
    async def inner() -> int:
        return 1

    return inner


@pytest.mark.parametrize("shown", FORGOTTEN)
@pytest.mark.parametrize("kept", [False, True])
async def test_a_call_that_was_never_awaited_fails_the_job_with_its_name(plane: TestPlane, shown: str, kept: bool) -> None:
    @plane.agent("forgetful", max_retries=5)
    async def forgetful(ctx: Context) -> str:
        await ctx.step("before", work)
        call: Any = FORGOTTEN[shown](ctx)
        if not kept:
            del call
        return "done"

    job = await forgetful.submit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await plane.work()

    ended = await job.job()
    assert (ended.status, ended.attempt) == (JobStatus.FAILED, 1)
    assert ended.error["type"] == "NeverAwaited"
    assert f"{shown} was called and never awaited" in str(ended.error_message)


@pytest.mark.parametrize("shown", FORGOTTEN)
async def test_a_call_that_is_returned_instead_of_awaited_is_named_too(plane: TestPlane, shown: str) -> None:
    @plane.agent("forgetful", max_retries=5)
    async def forgetful(ctx: Context) -> Any:
        return FORGOTTEN[shown](ctx)

    job = await forgetful.submit()
    await plane.work()

    ended = await job.job()
    assert (ended.status, ended.attempt) == (JobStatus.FAILED, 1)
    assert f"{shown} was called and never awaited" in str(ended.error_message)


async def test_a_decorated_function_may_stay_unused(plane: TestPlane) -> None:
    @plane.agent("careful")
    async def careful(ctx: Context) -> int:
        @ctx.step("unused")
        async def unused() -> int:
            return 1

        @ctx.step(
            "used",
            timeout=5,
        )
        async def used() -> int:
            return 2

        return await used()

    job = await careful.submit()
    await plane.work()

    assert await job.result(timeout=5) == 2


async def test_a_cleanup_scope_that_was_never_entered_fails_the_job(plane: TestPlane) -> None:
    @plane.agent("forgetful", max_retries=5)
    async def forgetful(ctx: Context) -> None:
        ctx.cleanup(timeout=5)
        await ctx.step("reserve", work)

    job = await forgetful.submit()
    await plane.work()

    assert "ctx.cleanup(…) was called and never entered, so it did not happen. Write: async with ctx.cleanup(…)" in str(
        (await job.job()).error_message
    )


async def test_each_forgotten_call_is_named_once(plane: TestPlane) -> None:
    @plane.agent("forgetful")
    async def forgetful(ctx: Context) -> None:
        ctx.step("a", work)
        ctx.step("a", work)
        ctx.tool("b", work)

    job = await forgetful.submit()
    await plane.work()

    assert str((await job.job()).error_message).startswith('ctx.step("a"), ctx.tool("b") was called and never awaited')


async def test_what_is_awaited_later_or_in_a_gather_is_awaited(plane: TestPlane) -> None:
    async def helper(ctx: Context) -> int:
        return await ctx.step("inner", work, 4)

    @plane.agent("careful")
    async def careful(ctx: Context) -> list[int]:
        later = ctx.step("later", work, 1)
        branches = [ctx.step("a", work, 2), ctx.tool("b", work, 3), helper(ctx)]
        return [await later, *await ctx.gather(*branches)]

    job = await careful.submit()
    await plane.work()

    assert await job.result(timeout=5) == [1, 2, 3, 4]


async def test_a_failure_of_the_handler_is_told_before_what_it_forgot(plane: TestPlane) -> None:
    @plane.agent("both", max_retries=0)
    async def both(ctx: Context) -> None:
        ctx.step("a", work)
        raise ValueError("first")

    job = await both.submit()
    await plane.work()

    assert (await job.job()).error["type"] == "ValueError"


async def test_a_handler_that_is_left_for_a_sleep_has_forgotten_nothing(plane: TestPlane) -> None:
    @plane.agent("sleeper")
    async def sleeper(ctx: Context) -> int:
        later = ctx.step("later", work, 1)
        await ctx.sleep(60)
        return await later

    job = await sleeper.submit()
    await plane.work()
    await plane.clock.advance(minutes=2)
    await plane.work()

    assert await job.result(timeout=5) == 1


@pytest.mark.parametrize("method", ["step", "tool", "block", "branch"])
async def test_what_a_step_has_forgotten_is_named_before_the_step_is_recorded(plane: TestPlane, method: str) -> None:
    """A later run answers the step from the record, and would not see it."""

    @plane.agent("forgetful", max_retries=5)
    async def forgetful(ctx: Context) -> None:
        async def inner() -> None:
            ctx.tool("pay", work)

        async def branch() -> None:
            await ctx.step("inside", inner)

        match method:
            case "block":
                async with ctx.step("outside"):
                    await inner()
            case "branch":
                await ctx.gather(branch(), ctx.step("beside", work))
            case _:
                await getattr(ctx, method)("outside", inner)
        await ctx.sleep(60)

    job = await forgetful.submit()
    await plane.work()

    ended = await job.job()
    assert (ended.status, ended.attempt) == (JobStatus.FAILED, 1)
    assert 'ctx.tool("pay") was called and never awaited' in str(ended.error_message)


async def test_branches_that_wait_for_their_turn_have_forgotten_nothing(plane: TestPlane) -> None:
    @plane.agent("careful")
    async def careful(ctx: Context) -> int:
        async def one(number: int) -> int:
            later = ctx.step("later", work, number)
            await ctx.step("first", work, number)
            return await later

        async def all_of_them() -> int:
            return sum(await ctx.gather(*(one(number) for number in range(3))))

        return await ctx.step("all", all_of_them)

    job = await careful.submit()
    await plane.work()

    assert await job.result(timeout=5) == 3
