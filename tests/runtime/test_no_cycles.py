"""What a run leaves behind is freed at once: what refers to itself would wait for the collector, and slow every job."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cortex_plane import Context
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio

JOBS = 50


@contextmanager
def kept_garbage() -> Iterator[Counter[str]]:
    """Counts, by type, what only the collector could free."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(type(thing).__name__ for thing in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def test_a_run_that_has_ended_is_freed_without_the_collector(plane: TestPlane) -> None:
    @plane.agent("idle")
    async def idle(ctx: Context) -> None: ...

    @plane.agent("busy")
    async def busy(ctx: Context) -> None:
        await ctx.step("think", abs, -1)
        await ctx.tool("act", abs, -1)
        ctx.log.info("done")

    await plane.submit_many([agent.submission() for agent in (idle, busy) for _ in range(JOBS)])

    with kept_garbage() as garbage:
        await plane.work()

    assert {kind: count for kind, count in garbage.items() if count >= JOBS} == {}
