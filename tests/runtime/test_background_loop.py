"""A loop with one loop goes on whatever happens, rests longer while it fails, and says when it last went well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from cortex_plane.clock import SystemClock
from cortex_plane.worker import loops as module
from cortex_plane.worker.loops import BackgroundLoop
from tests.runtime.helpers import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running_loop(once: Callable[[], Awaitable[float]]) -> AsyncIterator[BackgroundLoop]:
    loop = BackgroundLoop("test", once, SystemClock())
    task = asyncio.create_task(loop.run())
    try:
        yield loop
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_is_done_again_and_again() -> None:
    times = 0
    often = asyncio.Event()

    async def once() -> float:
        nonlocal times
        times += 1
        if times == 3:
            often.set()
        return 0.0

    async with running_loop(once) as loop:
        await asyncio.wait_for(often.wait(), PATIENCE_SECONDS)
        assert loop.last_ok_at is not None


async def test_a_failure_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    errors: list[Exception] = [ValueError("one"), KeyError("two"), OSError("three")]
    well = asyncio.Event()

    async def once() -> float:
        if errors:
            raise errors.pop(0)
        well.set()
        return 60.0

    async with running_loop(once) as loop:
        assert loop.last_ok_at is None
        await asyncio.wait_for(well.wait(), PATIENCE_SECONDS)
        await asyncio.sleep(0)
        assert loop.last_ok_at is not None


async def test_it_rests_longer_after_each_failure_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.04)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.16)
    moments: list[float] = []
    enough = asyncio.Event()

    async def once() -> float:
        moments.append(asyncio.get_running_loop().time())
        if len(moments) == 6:
            enough.set()
        raise ValueError("always")

    async with running_loop(once):
        await asyncio.wait_for(enough.wait(), PATIENCE_SECONDS)

    rests = [after - before for before, after in pairwise(moments)]
    least = [0.8 * rest for rest in (0.04, 0.08, 0.16, 0.16, 0.16)]
    assert all(rest >= shortest for rest, shortest in zip(rests, least, strict=True)), rests


async def test_a_success_makes_it_brisk_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 60.0)
    calls = 0
    done = asyncio.Event()

    async def once() -> float:
        nonlocal calls
        calls += 1
        if calls == 30:
            done.set()
        if calls % 3:  # Two failures, one success: the pause never grows beyond the second step.
            raise ValueError("now and then")
        return 0.0

    async with running_loop(once):
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)


async def test_one_that_hangs_is_given_up_and_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_SECONDS", 0.05)
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    calls = 0
    again = asyncio.Event()

    async def once() -> float:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(60)
        again.set()
        return 60.0

    async with running_loop(once):
        await asyncio.wait_for(again.wait(), PATIENCE_SECONDS)


async def test_it_can_be_woken() -> None:
    calls = 0
    rested, woken = asyncio.Event(), asyncio.Event()

    async def once() -> float:
        nonlocal calls
        calls += 1
        (rested if calls == 1 else woken).set()
        return 60.0

    async with running_loop(once) as loop:
        await asyncio.wait_for(rested.wait(), PATIENCE_SECONDS)
        await asyncio.sleep(0.01)
        loop.wake()
        await asyncio.wait_for(woken.wait(), PATIENCE_SECONDS)


async def test_it_ends_when_told_even_at_the_moment_at_which_it_is_woken() -> None:
    rested = asyncio.Event()

    async def once() -> float:
        rested.set()
        return 60.0

    loop = BackgroundLoop("test", once, SystemClock())
    task = asyncio.create_task(loop.run())
    await asyncio.wait_for(rested.wait(), PATIENCE_SECONDS)
    await asyncio.sleep(0.01)
    loop.wake()
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=1)
    task.cancel()

    assert ended == {task}
