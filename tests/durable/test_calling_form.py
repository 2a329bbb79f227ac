"""One calling form for steps, tools and model calls: what follows the function is passed to it, options are given apart."""

from __future__ import annotations

import re
import warnings
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane import Backoff, Context, JobFailed, RetryPolicy
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio

SOON = RetryPolicy(max_retries=2, backoff=Backoff(base_seconds=0.001, jitter=False))
OPTION_NAMES = ("verify", "retry", "timeout", "side_effect", "on_uncertain", "uncertain_on", "name", "work", "self", "key")
METHODS = ("step", "tool", "llm")


async def outcome(plane: TestPlane, do: Any, **options: Any) -> Any:
    """What an agent returns that does this alone."""

    @plane.agent("alone", max_retries=0, **options)
    async def alone(ctx: Context) -> Any:
        return await do(ctx)

    job = await alone.submit()
    await plane.work()
    return await job.result(timeout=5)


@pytest.mark.parametrize("method", METHODS)
async def test_arguments_with_the_names_of_options_reach_the_function(plane: TestPlane, method: str) -> None:
    async def fetch(url: str, **kwargs: object) -> dict[str, object]:
        return {"url": url, **kwargs}

    given = dict.fromkeys(OPTION_NAMES, False)

    found = await outcome(plane, lambda ctx: getattr(ctx, method)("fetch", fetch, "/", **given))

    assert found == {"url": "/", **given}


@pytest.mark.parametrize("method", METHODS)
async def test_arguments_reach_the_function_beside_options(plane: TestPlane, method: str) -> None:
    async def fetch(url: str, *, timeout: int) -> list[object]:
        return [url, timeout]

    found = await outcome(plane, lambda ctx: getattr(ctx, method)("fetch", timeout=5, retry=SOON)(fetch, "/", timeout=7))

    assert found == ["/", 7]


@pytest.mark.parametrize("method", METHODS)
async def test_each_kind_of_call_is_tried_again_in_the_same_run(plane: TestPlane, method: str) -> None:
    tries: list[int] = []

    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    assert await outcome(plane, lambda ctx: getattr(ctx, method)("flaky", retry=SOON)(flaky)) == 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("timeout", [0.01, timedelta(milliseconds=10)])
async def test_each_kind_of_call_can_have_a_time_limit(plane: TestPlane, method: str, timeout: Any) -> None:
    async def slow() -> None:
        await plane.clock.sleep(60)

    with pytest.raises(JobFailed, match=r"did not finish within 0\.01 s"):
        await outcome(plane, lambda ctx: getattr(ctx, method)("slow", timeout=timeout)(slow))


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("step", {"timout": 3}, r'ctx.step has no option "timout". Did you mean "timeout"\?'),
        ("llm", {"verify": None}, 'ctx.llm has no option "verify"'),
        ("tool", {"verfy": None}, r'ctx.tool has no option "verfy". Did you mean "verify"\?'),
        ("tool", {"retry": 3}, r"retry takes a RetryPolicy, such as RetryPolicy\(max_retries=3\), not 3"),
        ("step", {"timeout": 0}, "timeout takes a number of seconds above 0"),
        ("step", {"timeout": "9"}, "timeout takes a number of seconds above 0"),
        ("tool", {"timeout": float("nan")}, "timeout takes a number of seconds above 0"),
        ("tool", {"timeout": True}, "timeout takes a number of seconds above 0"),
        ("tool", {"verify": "yes"}, "verify takes a function"),
        ("tool", {"on_uncertain": "again"}, 'on_uncertain must be "fail", "rerun" or "ask"'),
        ("tool", {"uncertain_on": ["x"]}, "uncertain_on takes exception classes"),
        ("tool", {"uncertain_on": (KeyError, "x")}, "uncertain_on takes exception classes"),
        ("tool", {"side_effect": "no"}, "side_effect takes True or False"),
    ],
)
async def test_wrong_options_are_refused_by_name(plane: TestPlane, method: str, options: dict[str, Any], message: str) -> None:
    async def do(ctx: Context) -> None:
        getattr(ctx, method)("a", **options)

    with pytest.raises(JobFailed, match=message):
        await outcome(plane, do)


@pytest.mark.parametrize("method", METHODS)
async def test_a_function_that_was_called_instead_of_named_is_refused_without_noise(plane: TestPlane, method: str) -> None:
    async def fetch(number: int) -> int:
        return number

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(JobFailed, match=rf'Write ctx\.{method}\("a", fetch, …\)'):
            await outcome(plane, lambda ctx: getattr(ctx, method)("a", fetch(1)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [None, 4, "text"])
async def test_a_value_instead_of_a_function_is_refused(plane: TestPlane, method: str, value: object) -> None:
    with pytest.raises(JobFailed, match=rf'Write ctx\.{method}\("a", f, 1\) instead of ctx\.{method}\("a", f\(1\)\)'):
        await outcome(plane, lambda ctx: getattr(ctx, method)("a", value))


async def test_options_among_the_arguments_of_a_function_that_does_not_take_them_are_refused(plane: TestPlane) -> None:
    paid: list[int] = []

    async def pay(amount: int) -> None:
        paid.append(amount)

    with pytest.raises(JobFailed, match=r"""takes no argument 'verify'.* ctx\.tool\("pay", verify=…\)\(function, …\)"""):
        await outcome(plane, lambda ctx: ctx.tool("pay", pay, 5, verify=None))
    assert paid == []


async def test_a_decorated_function_is_a_step_each_time_it_is_called(plane: TestPlane) -> None:
    async def do(ctx: Context) -> list[int]:
        @ctx.step("double", timeout=5)
        async def double(number: int) -> int:
            return 2 * number

        @ctx.tool("never used")
        async def never_used() -> None: ...

        return [await double(1), await double(number=2)]

    assert await outcome(plane, do) == [2, 4]


WRITTEN_WRONG = {
    "ctx.step(fetch, …)": (lambda ctx: ctx.step(fetch, 1), 'write ctx.step("fetch", fetch, …)'),
    "await ctx.step(…)": (
        lambda ctx: ctx.step("a", timeout=5),
        'ctx.step("a") was awaited without a function. Write await ctx.step("a", f, …)',
    ),
    "await ctx.tool(…)": (lambda ctx: ctx.tool("a", on_uncertain="rerun"), 'ctx.tool("a") was awaited without a function'),
    "ctx.gather([…])": (lambda ctx: ctx.gather([ctx.step("a", fetch, 1)]), "Write ctx.gather(*branches)"),
    "ctx.gather(f)": (lambda ctx: ctx.gather(fetch), "ctx.gather takes branches that can be awaited"),
    "ctx.step(f(1))": (lambda ctx: ctx.step("a", fetch(1)), 'Write ctx.step("a", fetch, …)'),
}


async def fetch(number: int) -> int:
    return number


@pytest.mark.parametrize("wrong", WRITTEN_WRONG)
async def test_a_call_that_is_written_wrong_says_what_to_write(plane: TestPlane, wrong: str) -> None:
    call, advice = WRITTEN_WRONG[wrong]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(JobFailed, match=re.escape(advice)):
            await outcome(plane, call)
