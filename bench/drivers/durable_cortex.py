"""Cortex Plane, as a program uses it: an agent whose steps are checkpoints, and a worker that runs until nothing is left."""

from __future__ import annotations

import logging

import structlog

from bench.drivers.cortex_database import open_database
from bench.durable.story import StepsOrder, Work, measure, result
from bench.measuring import same
from cortex_plane import Context, Plane
from cortex_plane.adapters.event_loop import run


class CortexSteps:
    def __init__(self, order: StepsOrder) -> None:
        self._plane = Plane(order.database)
        self._agent = self._plane.agent("steps")(_take_steps)
        self._database = open_database(order.database)

    async def install(self) -> None:
        await self._plane.store
        await self._database.open()

    async def settle(self) -> None:
        await self._database.settle()

    async def run(self, work: Work) -> None:
        submission = self._agent.submission(steps=work.steps, result_bytes=work.result_bytes)
        await self._plane.submit_many([submission] * work.agents)
        await self._plane.run_worker(until_idle=True, concurrency=work.at_once)

    async def check(self, agents: int, steps: int) -> None:
        count = self._database.count
        same("COMPLETED jobs", await count("select count(*) from cortex.job where status = 'COMPLETED'"), agents)
        same("jobs", await count("select count(*) from cortex.job"), agents)
        same("runs", await count("select count(*) from cortex.job_run"), agents)
        recorded = await count("select sum(cast(checkpoint ->> 'step_index' as integer)) from cortex.job")
        same("recorded steps", recorded, steps)

    async def close(self) -> None:
        await self._database.close()
        await self._plane.close()


async def _take_steps(ctx: Context, steps: int, result_bytes: int) -> None:
    for _ in range(steps):
        await ctx.step("step", _step, result_bytes)


async def _step(result_bytes: int) -> str | None:
    return result(result_bytes)


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    order = StepsOrder.given()
    await measure(CortexSteps(order), order)


if __name__ == "__main__":
    run(main())
