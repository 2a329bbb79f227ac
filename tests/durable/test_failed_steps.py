"""Which durable call failed, and where in the agent's own code."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from cortex_plane import Context, PermanentFailure, RetryPolicy
from cortex_plane.jobs.retry import Backoff
from cortex_plane.testing import TestPlane
from cortex_plane.worker.failures import TRACEBACK_LIMIT
from tests.durable.approval_scene import People

pytestmark = pytest.mark.anyio

ONCE = RetryPolicy(max_retries=0)


async def error_of(plane: TestPlane, agent: Any) -> dict[str, Any]:
    job = await agent.submit()
    await plane.work()
    found: dict[str, Any] = (await job.job()).error
    return found


async def users_helper() -> None:
    raise ValueError("the bank is closed")


def plain_helper() -> None:
    raise ValueError("the bank is closed")


def assert_users_own(trace: str) -> None:
    assert "cortex_plane/runtime" not in trace, trace
    assert "concurrent/futures" not in trace, trace


@pytest.mark.parametrize("work", [users_helper, plain_helper])
@pytest.mark.parametrize("kind", ["step", "tool", "llm"])
async def test_the_failed_call_is_named_with_the_users_own_frames(plane: TestPlane, kind: str, work: Any) -> None:
    @plane.agent("pays", retry=ONCE)
    async def pays(ctx: Context) -> None:
        await ctx.step("first", str, 1)
        await getattr(ctx, kind)("pay", work)

    error = await error_of(plane, pays)

    assert error["step"] == "pay#1"
    assert "the bank is closed" in error["message"]
    trace = error["traceback"]
    assert_users_own(trace)
    assert trace.index(f"in {work.__name__}") < trace.index("ValueError: the bank is closed") < trace.index("in pays")
    assert "was the direct cause of" in trace


async def test_of_nested_calls_the_innermost_is_named(plane: TestPlane) -> None:
    @plane.agent("nested", retry=ONCE)
    async def nested(ctx: Context) -> None:
        async def deploy() -> None:
            await ctx.step("check", str, 1)
            await ctx.step("check", users_helper)

        await ctx.step("deploy", deploy)

    error = await error_of(plane, nested)

    assert error["step"] == "deploy#1/check#2"
    assert error["traceback"].count("in users_helper") == 1


async def test_a_failure_in_a_branch_is_named_with_its_branch(plane: TestPlane) -> None:
    @plane.agent("parallel", retry=ONCE)
    async def parallel(ctx: Context) -> None:
        await ctx.gather(ctx.step("a", str, 1), ctx.step("b", users_helper))

    assert (await error_of(plane, parallel))["step"] == "gather#1[1]/b#1"


async def test_a_permanent_failure_inside_a_step_names_it_too(plane: TestPlane) -> None:
    async def refuse() -> None:
        raise PermanentFailure("never")

    @plane.agent("strict")
    async def strict(ctx: Context) -> None:
        await ctx.step("ask", refuse)

    error = await error_of(plane, strict)

    assert (error["type"], error["step"]) == ("PermanentFailure", "ask#1")


async def test_what_the_handler_raises_because_of_a_step_names_the_step(plane: TestPlane) -> None:
    @plane.agent("wraps", retry=ONCE)
    async def wraps(ctx: Context) -> None:
        try:
            await ctx.step("pay", users_helper)
        except Exception as error:
            raise RuntimeError("could not pay") from error

    error = await error_of(plane, wraps)

    assert (error["type"], error["step"]) == ("RuntimeError", "pay#1")
    assert_users_own(error["traceback"])
    assert "in users_helper" in error["traceback"]


async def test_a_failure_of_the_handler_itself_names_no_step(plane: TestPlane) -> None:
    @plane.agent("plain", retry=ONCE)
    async def plain(ctx: Context) -> None:
        await ctx.step("first", str, 1)
        await users_helper()

    error = await error_of(plane, plain)

    assert "step" not in error
    assert_users_own(error["traceback"])
    assert error["traceback"].startswith("Traceback (most recent call last):\n")
    assert error["traceback"].endswith("ValueError: the bank is closed\n")


async def test_sub_exceptions_are_shown_and_bounded(plane: TestPlane) -> None:
    async def many() -> None:
        errors: list[Exception] = []
        for number in range(40):
            try:
                dict[str, int]()[f"item {number} {'x' * 500}"]
            except KeyError as error:
                errors.append(error)
        raise ExceptionGroup("many", [ExceptionGroup("inner", errors[:2]), *errors])

    @plane.agent("group", retry=ONCE)
    async def group(ctx: Context) -> None:
        await ctx.step("all", many)

    trace = (await error_of(plane, group))["traceback"]

    assert "item 0" in trace
    assert "and 26 more" in trace
    assert len(trace) <= TRACEBACK_LIMIT + 10


async def test_an_exception_that_causes_itself_is_shown_once(plane: TestPlane) -> None:
    @plane.agent("ring", retry=ONCE)
    async def ring(ctx: Context) -> None:
        error, other = ValueError("one"), ValueError("two")
        error.__cause__, other.__cause__ = other, error
        raise error

    assert (await error_of(plane, ring))["traceback"].count("ValueError: one") == 1


async def test_the_failure_of_a_child_comes_with_the_childs_own_traceback(plane: TestPlane) -> None:
    @plane.agent("child", retry=ONCE)
    async def child(ctx: Context) -> None:
        await ctx.step("pay", users_helper)

    @plane.agent("parent", retry=ONCE)
    async def parent(ctx: Context) -> None:
        await ctx.call(child)

    error = await error_of(plane, parent)

    assert error["step"] == "child#1"
    assert "in users_helper" in error["traceback"]


async def test_a_denied_approval_is_the_failed_call(plane: TestPlane, people: People) -> None:
    @plane.agent("asks", retry=ONCE)
    async def asks(ctx: Context) -> None:
        await ctx.approval("Deploy it")

    job = await asks.submit()
    await plane.work()
    await people.deny(job, "alice")

    assert (await job.job()).error["step"] == "approval#1"


async def test_each_run_keeps_its_own_error_and_the_log_has_it(plane: TestPlane) -> None:
    tries: list[str] = []

    async def work() -> None:
        tries.append("x")
        raise ValueError(f"try {len(tries)}")

    @plane.agent("twice", retry=RetryPolicy(max_retries=1, backoff=Backoff(0)))
    async def twice(ctx: Context) -> None:
        await ctx.step("pay", work)

    with structlog.testing.capture_logs() as logs:
        job = await twice.submit()
        await plane.work()

    runs = await job.runs()
    assert [run.error_details["step"] for run in runs] == ["pay#1", "pay#1"]
    assert ["try 1" in run.error_details["traceback"] for run in runs] == [True, False]
    lines = [line for line in logs if line["event"] == "run_failed"]
    assert [line["step"] for line in lines] == ["pay#1", "pay#1"]
    assert all("in work" in line["exception"] for line in lines)
