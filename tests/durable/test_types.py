"""What a step, a tool call, a model call and a child job give back has the type of what was called: mypy reads this file."""

from __future__ import annotations

from typing import assert_type

import pytest

from cortex_plane import Context, RetryPolicy
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def deploy(image: str) -> str:
    return f"{image} is live"


def count(words: str) -> list[int]:
    return [len(word) for word in words.split()]


async def charge(cents: int, invocation_id: str = "") -> dict[str, int]:
    return {"cents": cents, "letters": len(invocation_id)}


async def test_results_keep_their_types(plane: TestPlane) -> None:
    @plane.agent("twice")
    def twice(ctx: Context, number: int) -> int:
        return 2 * number

    @plane.agent("release")
    async def release(ctx: Context, image: str) -> str:
        assert_type(await ctx.step("count", count, image), list[int])
        assert_type(await ctx.llm("ask", deploy, image), str)
        assert_type(await ctx.tool("charge", on_uncertain="rerun")(charge, 3), dict[str, int])
        assert_type(await ctx.tool("charge", side_effect=True)(charge, 3), dict[str, int])
        assert_type(await ctx.call(twice, 4), int)
        assert_type(await ctx.call(twice.options(priority=1), number=4), int)
        assert_type(await ctx.tool("count", count, image), list[int])
        assert_type(await ctx.llm("ask", timeout=60)(deploy, image), str)
        assert_type(await ctx.step("count", retry=RetryPolicy(max_retries=1))(count, words=image), list[int])
        assert_type(await ctx.sleep(0), None)
        return await ctx.tool("deploy", deploy, image)

    job = await release.submit("app")
    await plane.work()

    assert await job.result() == "app is live"


async def test_wrong_arguments_are_found_by_mypy(plane: TestPlane) -> None:
    """Each `ignore` must be needed: mypy says so when it is not."""

    async def wrong(ctx: Context) -> None:
        await ctx.step("deploy", deploy, 3)  # type: ignore[call-overload]
        await ctx.tool("deploy", deploy)  # type: ignore[call-overload]
        await ctx.tool("deploy", deploy, image=3)  # type: ignore[call-overload]
        await ctx.tool("deploy", deploy, "app", verify=None)  # type: ignore[call-arg]
        await ctx.tool("deploy", side_effect=True)(deploy, 3)  # type: ignore[call-overload]
        await ctx.llm("ask", deploy, "app", "more")  # type: ignore[call-overload]
        ctx.step("deploy", verify=None)  # type: ignore[call-overload]

    assert callable(wrong)
