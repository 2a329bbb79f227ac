"""Steps: done once, remembered, answered from the record."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobFailed, RetryPolicy, StepFailed
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_a_retry_goes_on_after_the_steps_that_are_done(plane: TestPlane) -> None:
    done: list[str] = []

    def work(name: str) -> str:
        done.append(name)
        return f"{name} done"

    @plane.agent("two", max_retries=1)
    async def two(ctx: Context) -> list[str]:
        first = await ctx.step("first", work, "first")
        if ctx.attempt == 1:
            raise RuntimeError("the worker's fault")
        return [first, await ctx.step("second", work, "second")]

    job = await two.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()

    assert await job.result(timeout=5) == ["first done", "second done"]
    assert done == ["first", "second"]


async def test_what_a_step_returns_is_what_a_replay_would_return(plane: TestPlane) -> None:
    async def pair() -> tuple[int, float]:
        return (1, 2.0)

    @plane.agent("pairs")
    async def pairs(ctx: Context) -> Any:
        found: Any = await ctx.step("pair", pair)
        return [type(found).__name__, [type(item).__name__ for item in found]]

    job = await pairs.submit()
    await plane.work()

    assert await job.result(timeout=5) == ["tuple", ["int", "float"]]


async def test_a_loop_may_use_one_name(plane: TestPlane) -> None:
    async def square(number: int) -> int:
        return number * number

    @plane.agent("squares")
    async def squares(ctx: Context) -> list[int]:
        return [await ctx.step("square", square, number) for number in range(5)]

    job = await squares.submit()
    await plane.work()

    assert await job.result(timeout=5) == [0, 1, 4, 9, 16]


async def test_a_step_that_fails_is_tried_again_by_the_retry_of_its_job(plane: TestPlane) -> None:
    calls: list[int] = []

    async def shaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return "now"

    @plane.agent("shaky", max_retries=2)
    async def agent(ctx: Context) -> str:
        return await ctx.step("shaky", shaky)

    job = await agent.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()

    assert await job.result(timeout=5) == "now"
    assert len(calls) == 2


async def test_a_failure_that_the_handler_lived_with_is_remembered(plane: TestPlane) -> None:
    calls: list[str] = []

    async def fail() -> None:
        calls.append("fail")
        raise ValueError("no")

    async def instead() -> str:
        calls.append("instead")
        return "instead"

    @plane.agent("plan-b", max_retries=1)
    async def plan_b(ctx: Context) -> str:
        try:
            await ctx.step("fail", fail)
        except StepFailed:
            await ctx.step("instead", instead)
        if ctx.attempt == 1:
            raise RuntimeError
        return "done"

    job = await plan_b.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()

    assert await job.result(timeout=5) == "done"
    assert calls == ["fail", "instead"]


async def test_a_step_can_be_tried_several_times_and_within_a_time(plane: TestPlane) -> None:
    import asyncio

    calls: list[int] = []

    async def slow_at_first() -> str:
        calls.append(1)
        if len(calls) < 3:
            await asyncio.sleep(30)
        return "ok"

    @plane.agent("patient")
    async def patient(ctx: Context) -> str:
        from cortex_plane import Backoff

        policy = RetryPolicy(max_retries=3, backoff=Backoff(base_seconds=0.001, max_seconds=0.01))
        return await ctx.step("slow", retry=policy, timeout=0.05)(slow_at_first)

    job = await patient.submit()
    await plane.work()

    assert await job.result(timeout=5) == "ok"
    assert len(calls) == 3


async def test_a_step_is_a_decorator_and_a_block_too(plane: TestPlane) -> None:
    calls: list[str] = []

    @plane.agent("forms", max_retries=1)
    async def forms(ctx: Context) -> list[int]:
        @ctx.step("double")
        async def double(number: int) -> int:
            calls.append("double")
            return 2 * number

        async with ctx.step("block") as step:
            if step.pending:
                calls.append("block")
                step.result = 7
        found = [await double(1), await double(2), step.result]
        if ctx.attempt == 1:
            raise RuntimeError
        return found

    job = await forms.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()

    assert await job.result(timeout=5) == [2, 4, 7]
    assert calls == ["block", "double", "double"]


async def test_other_arguments_than_recorded_are_refused(plane: TestPlane) -> None:
    async def echo(value: float) -> float:
        return value

    @plane.agent("moody", max_retries=1, on_code_change="fail")
    async def moody(ctx: Context) -> None:
        await ctx.step("echo", echo, ctx.attempt)
        if ctx.attempt == 1:
            raise RuntimeError

    job = await moody.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()

    with pytest.raises(JobFailed, match='Step "echo" was recorded with different arguments'):
        await job.result(timeout=5)


async def test_a_plain_function_is_told_that_it_cannot_have_steps(plane: TestPlane) -> None:
    @plane.agent("plain")
    def plain(ctx: Context) -> None:
        ctx.step("x", print)

    job = await plain.submit()
    await plane.work()

    with pytest.raises(JobFailed, match="need an async handler"):
        await job.result(timeout=5)


async def test_a_context_in_a_task_of_ones_own_is_refused(plane: TestPlane) -> None:
    import asyncio

    @plane.agent("stray")
    async def stray(ctx: Context) -> None:
        await asyncio.gather(asyncio.ensure_future(_await(ctx.step("x", _nothing))))

    job = await stray.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"ctx\.gather"):
        await job.result(timeout=5)


async def test_a_result_that_is_not_json_fails_with_its_path(plane: TestPlane) -> None:
    async def odd() -> object:
        return {"a": {"b": {1, 2}}}

    @plane.agent("odd")
    async def agent(ctx: Context) -> None:
        await ctx.step("odd", odd)

    job = await agent.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r'the result of step "odd"\.a\.b is of type set'):
        await job.result(timeout=5)


@pytest.mark.parametrize("name", ["", "a#b", "$x", "x" * 201, "a\nb"])
async def test_names_that_could_be_confused_are_refused(plane: TestPlane, name: str) -> None:
    @plane.agent("named")
    async def named(ctx: Context) -> None:
        with pytest.raises(InvalidInput):
            await ctx.step(name, _nothing)

    job = await named.submit()
    await plane.work()
    await job.result(timeout=5)


async def _nothing() -> None:
    pass


async def _await(call: Any) -> Any:
    return await call
