"""On PostgreSQL the server's clock decides how long a job sleeps, however wrong that of a worker's machine is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cortex_plane import Context, JobStatus, Plane, Settings
from cortex_plane.clock import SECOND, Instant, SystemClock
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, working

pytestmark = pytest.mark.anyio


class WrongClock(SystemClock):
    def __init__(self, hours: float) -> None:
        self._off = round(hours * 3600 * SECOND)

    def now(self) -> Instant:
        return Instant(super().now() + self._off)


@asynccontextmanager
async def machine(database_url: str, folder: Path, hours: float = 0.0) -> AsyncIterator[Plane]:
    async with Plane(settings=Settings(database_url=database_url, data_dir=str(folder)), clock=WrongClock(hours)) as plane:

        @plane.agent("sleeper")
        async def sleeper(ctx: Context, seconds: float) -> str:
            await ctx.sleep(seconds)
            return ctx.now().isoformat()

        @plane.agent("planner")
        async def planner(ctx: Context, seconds: float) -> str:
            await ctx.sleep_until(ctx.now() + timedelta(seconds=seconds))
            return "awake"

        yield plane


@pytest.mark.parametrize("hours", [1.0, -1.0])
@pytest.mark.parametrize("agent", ["sleeper", "planner"])
async def test_a_worker_whose_clock_is_an_hour_off_sleeps_as_long_as_it_was_asked(
    database_url: str, tmp_path: Path, hours: float, agent: str
) -> None:
    async with machine(database_url, tmp_path, hours) as plane:
        began = asyncio.get_running_loop().time()
        job = await plane.submit(agent, {"seconds": 1.0})
        async with working(plane):
            await job.result(timeout=PATIENCE_SECONDS)
        slept = asyncio.get_running_loop().time() - began

    assert 1.0 <= slept < PATIENCE_SECONDS / 2


@pytest.mark.parametrize(("begins", "ends"), [(1.0, -1.0), (-1.0, 1.0)])
async def test_machines_that_disagree_agree_on_when_a_sleep_is_over(
    postgres_url: str, tmp_path: Path, begins: float, ends: float
) -> None:
    async with machine(postgres_url, tmp_path, begins) as first:
        job = await first.submit("sleeper", {"seconds": 1.0})

        async def sleeps() -> bool:
            return await job.status() is JobStatus.RETRY

        async with working(first):
            await eventually(sleeps)

    async with machine(postgres_url, tmp_path, ends) as second, working(second):
        told = await second.job(job.id).result(timeout=PATIENCE_SECONDS)

    assert abs(datetime.fromisoformat(told) - datetime.now(UTC)) < timedelta(minutes=1)
