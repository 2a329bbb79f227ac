"""The example of the guide: ten steps, a crash in the middle and a sleep of three days, in well under a second."""

from __future__ import annotations

import time

import pytest

from cortex_plane import Context
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_a_crash_and_three_days_of_sleep_repeat_nothing(cortex_plane: TestPlane) -> None:
    done: list[int] = []

    async def work(number: int) -> int:
        done.append(number)
        return number * number

    @cortex_plane.agent("ten-steps")
    async def ten_steps(ctx: Context) -> int:
        first = [await ctx.step(f"step {number}", work, number) for number in range(5)]
        await ctx.sleep(3 * 24 * 3600)
        return sum(first) + sum([await ctx.step(f"step {number}", work, number) for number in range(5, 10)])

    job = await ten_steps.submit()
    cortex_plane.crash_after("step 3")

    began = time.perf_counter()
    await cortex_plane.work()  # Its worker dies after the fourth step,
    await cortex_plane.work()  # another goes on from there, and the job falls asleep.
    await cortex_plane.clock.advance(days=3)
    await cortex_plane.work()

    assert await job.result(timeout=5) == 285
    assert done == list(range(10))
    assert time.perf_counter() - began < 30  # On a machine that has nothing else to do, a hundredth of that.
