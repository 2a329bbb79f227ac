"""A worker that runs until nothing is left does not leave while its own timers are about to make something ready."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_plane import Context
from cortex_plane.testing import TestPlane
from cortex_plane.worker.maintenance import Due
from tests.runtime.faults import FaultyStore
from tests.runtime.helpers import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio


async def test_what_the_timers_have_locked_is_waited_for(plane: TestPlane) -> None:
    promoting, go_on = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def slowly(method: Any, *values: Any) -> Any:
        if not promoting.is_set():
            promoting.set()
            await go_on.wait()
        return await method(*values)

    @plane.agent("later")
    async def later(ctx: Context) -> None: ...

    await later.options(delay=5).submit()
    await plane.clock.advance(seconds=5)
    faulty: Any = FaultyStore(plane.store)
    faulty.around("queue", "promote_due", slowly)
    due = Due(faulty, {})
    timers = asyncio.create_task(due.timers.once())
    timers.add_done_callback(lambda _: ended.append("timers"))
    await asyncio.wait_for(promoting.wait(), PATIENCE_SECONDS)
    worker = asyncio.create_task(due.make_ready())
    worker.add_done_callback(lambda _: ended.append("worker"))
    await asyncio.wait([worker], timeout=0.2)
    too_early = list(ended)
    go_on.set()
    await asyncio.gather(timers, worker)

    assert too_early == []
