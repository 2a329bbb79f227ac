"""Any callable is work for a step, a tool or an agent, and nothing of it is kept when its job has ended."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from cortex_plane import Context, JobStatus
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.anyio


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def __call__(self) -> str:
        return self.answer


async def test_a_callable_that_has_no_hash_is_work_like_any_other(plane: TestPlane) -> None:
    @plane.agent("unhashable")
    async def unhashable(ctx: Context) -> list[str]:
        return [await ctx.step("a", Unhashable("step")), await ctx.tool("b", Unhashable("tool"))]

    job = await unhashable.submit()
    await plane.work()

    assert await job.result(timeout=5) == ["step", "tool"]


async def test_an_agent_may_be_a_callable_that_has_no_hash(plane: TestPlane) -> None:
    class Greeter:
        __hash__ = None  # type: ignore[assignment]
        __name__ = "greeter"

        def __call__(self, ctx: Context, name: str) -> str:
            return f"Hello, {name}"

    greet = plane.agent("greet")(Greeter())
    job = await greet.submit("Ada")
    await plane.work()

    assert await job.result(timeout=5) == "Hello, Ada"


async def test_what_the_work_of_a_step_holds_is_freed_when_its_job_has_ended(plane: TestPlane) -> None:
    class Document:
        pass

    seen: list[weakref.ref[Document]] = []

    @plane.agent("closures")
    async def closures(ctx: Context) -> None:
        document = Document()
        seen.append(weakref.ref(document))

        def size(invocation_id: str = "") -> int:
            return sys.getsizeof(document)

        await ctx.step("size", size)
        await ctx.tool("size of it", size)

    await closures.submit()
    await plane.work()

    await eventually(partial(is_freed, seen))


async def test_what_the_types_of_a_handler_hold_is_freed_when_its_job_has_ended(plane: TestPlane) -> None:
    seen: list[weakref.ref[type[BaseModel]]] = []

    @plane.agent("types")
    async def types(ctx: Context) -> None:
        text = "a long document"  # A model remembers the variables of the function that it is made in.

        class Row(BaseModel):
            size: int

        seen.append(weakref.ref(Row))

        def row() -> Row:
            return Row(size=len(text))

        def rows() -> list[Row]:
            return [Row(size=len(text))]

        assert (await ctx.step("row", row)).size == (await ctx.tool("rows", rows))[0].size

    job = await types.submit()
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    await eventually(partial(is_freed, seen))


async def is_freed(seen: Sequence[weakref.ref[Any]]) -> bool:
    """A thread of the worker may need a moment to let go of what it has done."""
    gc.collect()
    return [reference() for reference in seen] == [None]


async def test_a_tool_is_given_its_invocation_id_in_whatever_way_it_takes_it(plane: TestPlane) -> None:
    def named(number: int, invocation_id: str = "") -> bool:
        return bool(invocation_id)

    class Object:
        def method(self, *, invocation_id: str = "") -> bool:
            return bool(invocation_id)

        def __call__(self, invocation_id: str = "") -> bool:
            return bool(invocation_id)

    def unnamed(number: int) -> bool:
        invocation_id = None
        return invocation_id is None

    @plane.agent("tools")
    async def tools(ctx: Context) -> list[bool]:
        return [
            await ctx.tool("named", named, 1),
            await ctx.tool("method", Object().method),
            await ctx.tool("object", Object()),
            await ctx.tool("unnamed", unnamed, 1),
        ]

    job = await tools.submit()
    await plane.work()

    assert await job.result(timeout=5) == [True] * 4
