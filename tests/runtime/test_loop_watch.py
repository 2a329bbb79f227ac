"""A handler that blocks the event loop is named, with where it does so."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest
import structlog

from cortex_plane import Context, InvalidInput, Plane
from cortex_plane.worker import loop_watch
from tests.runtime.faults import FaultyStore
from tests.runtime.helpers import PATIENCE_SECONDS, worker_on, working

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(loop_watch, "BLOCKED_SECONDS", 0.2)


def compute_the_answer(seconds: float) -> int:
    time.sleep(seconds)
    return 42


async def test_it_is_logged_once_for_each_stretch_with_its_stack_and_job(live_plane: Plane) -> None:
    @live_plane.agent("blocks")
    async def blocks(ctx: Context) -> int:
        compute_the_answer(0.6)
        await ctx.step("breathe", asyncio.sleep, 0.1)
        return compute_the_answer(0.6)

    with structlog.testing.capture_logs() as lines:
        async with working(live_plane):
            job = await blocks.submit()
            await job.result(timeout=PATIENCE_SECONDS)

    blocked = [line for line in lines if line["event"] == "event_loop_blocked"]
    assert len(blocked) == 2
    assert {line["job_id"] for line in blocked} == {job.id}
    assert all("compute_the_answer" in line["stack"] for line in blocked)


async def test_a_heartbeat_that_waits_for_the_database_is_not_taken_for_one(live_plane: Plane) -> None:
    store: Any = FaultyStore(live_plane.store)
    beaten = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(method: Any, *values: Any) -> Any:
        time.sleep(0.5)
        loop.call_soon_threadsafe(beaten.set)
        return method(*values)

    store.around("workers", "heartbeat", lambda make, worker_id: partial(slow, make(worker_id)))

    @live_plane.agent("idle")
    async def idle(ctx: Context) -> None: ...

    await idle.submit()
    with structlog.testing.capture_logs() as lines:
        async with worker_on(live_plane, store, lease_seconds=1.5):
            await asyncio.wait_for(beaten.wait(), PATIENCE_SECONDS)

    assert [line for line in lines if line["event"] == "event_loop_blocked"] == []


async def test_plane_sync_is_refused_inside_a_running_event_loop(live_plane: Plane) -> None:
    @live_plane.agent("idle")
    async def idle(ctx: Context) -> None: ...

    with pytest.raises(InvalidInput, match=r"Use the async form there: await plane\.submit"):
        live_plane.sync.submit("idle")

    assert await live_plane.jobs.list() == []


async def test_plane_sync_works_in_a_thread_beside_a_running_event_loop(live_plane: Plane) -> None:
    @live_plane.agent("idle")
    async def idle(ctx: Context) -> None: ...

    job = await asyncio.to_thread(live_plane.sync.submit, "idle")
    await asyncio.to_thread(live_plane.sync.close)

    assert [found.id for found in await live_plane.jobs.list()] == [job.id]
