"""What a step, a tool call, a model call and a child job give back has the type of what was called: mypy reads this file."""

from __future__ import annotations

from typing import assert_type

import pytest

from cortex_plane import Context
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def deploy(image: str) -> str:
    return f"{image} is live"


def count(words: str) -> list[int]:
    return [len(word) for word in words.split()]


async def charge(cents: int, invocation_id: str) -> dict[str, int]:
    return {"cents": cents, "letters": len(invocation_id)}


async def test_results_keep_their_types(plane: TestPlane) -> None:
    @plane.agent("twice")
    def twice(ctx: Context, number: int) -> int:
        return 2 * number

    @plane.agent("release")
    async def release(ctx: Context, image: str) -> str:
        assert_type(await ctx.step("count", count, image), list[int])
        assert_type(await ctx.llm("ask", deploy, image), str)
        assert_type(await ctx.tool("charge", charge, 3, on_uncertain="rerun"), dict[str, int])
        assert_type(await ctx.tool("charge", side_effect=True)(charge, 3), dict[str, int])
        assert_type(await ctx.call(twice, 4), int)
        assert_type(await ctx.call(twice.options(priority=1), number=4), int)
        return await ctx.tool("deploy", deploy, image)

    job = await release.submit("app")
    await plane.work()

    assert await job.result() == "app is live"
