"""Cortex Plane, as a program uses it: an agent whose steps are checkpoints, and a worker that waits for work."""

from __future__ import annotations

import asyncio
import logging

import structlog

from bench.drivers.cortex_database import open_database
from bench.durable.story import StepsOrder, Work, measure, result
from bench.measuring import same
from cortex_plane import Context, Plane
from cortex_plane.event_loop import run

LOOK_SECONDS = 0.002
PATIENCE_SECONDS = 120.0
STARTED_SECONDS = 0.5
"""By then a worker has begun with everything that it does beside its work."""


class CortexSteps:
    def __init__(self, order: StepsOrder) -> None:
        self._plane = Plane(order.database)
        self._agent = self._plane.agent("steps")(self._take_steps)
        self._database = open_database(order.database)
        self._worker: asyncio.Task[None] | None = None
        self._left = 0
        self._all_returned = asyncio.Event()

    async def _take_steps(self, ctx: Context, steps: int, result_bytes: int) -> None:
        for _ in range(steps):
            await ctx.step("step", _step, result_bytes)
        self._left -= 1
        if self._left == 0:
            self._all_returned.set()

    async def install(self) -> None:
        await self._plane.open()
        await self._database.open()

    async def get_ready(self, work: Work) -> None:
        await self._stop_worker()
        await self._database.settle()
        self._worker = asyncio.create_task(self._plane.run_worker(concurrency=work.at_once))
        await asyncio.sleep(STARTED_SECONDS)

    async def run(self, work: Work) -> None:
        self._left = work.agents
        self._all_returned.clear()
        submission = self._agent.submission(steps=work.steps, result_bytes=work.result_bytes)
        await self._plane.submit_many([submission] * work.agents)
        await self._all_returned.wait()
        await self._all_ended()

    async def _all_ended(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if not await self._database.count("select count(*) from cortex.job_run where status = 'RUNNING'"):
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def check(self, agents: int, steps: int) -> None:
        count = self._database.count
        same("COMPLETED jobs", await count("select count(*) from cortex.job where status = 'COMPLETED'"), agents)
        same("jobs", await count("select count(*) from cortex.job"), agents)
        same("runs", await count("select count(*) from cortex.job_run"), agents)
        recorded = await count("select sum(cast(checkpoint ->> 'step_index' as integer)) from cortex.job")
        same("recorded steps", recorded, steps)

    async def _stop_worker(self) -> None:
        if self._worker is not None:
            self._plane.stop_workers()
            await self._worker

    async def close(self) -> None:
        await self._stop_worker()
        await self._database.close()
        await self._plane.close()


async def _step(result_bytes: int) -> str | None:
    return result(result_bytes)


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    order = StepsOrder.given()
    await measure(CortexSteps(order), order)


if __name__ == "__main__":
    run(main())
