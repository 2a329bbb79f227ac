"""Cortex Plane, as a program uses it: a plane, an agent, a worker. Full history and runs are written."""

from __future__ import annotations

import asyncio
import logging
from itertools import count

import structlog

from bench.drivers.cortex_database import open_database
from bench.measuring import Started, measure, same
from bench.order import Order
from cortex_plane import Context, Plane
from cortex_plane.event_loop import run

CONCURRENCY = 1_000


class CortexPlane:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._plane = Plane(order.database)
        self._agent = self._plane.agent("noop")(self._noop)
        self._database = open_database(order.database)
        self._started: Started = lambda at: None
        self._numbers = count()
        self._worker: asyncio.Task[None] | None = None

    async def _noop(self, ctx: Context, at: float) -> None:
        self._started(at)

    async def install(self) -> None:
        await self._plane.open()
        await self._database.open()

    async def submit(self, at: float) -> None:
        await self._agent.submit(at=at)

    async def submit_batch(self, size: int) -> None:
        keys = self._order.options.get("serial_keys")
        if keys:
            numbers = [next(self._numbers) % keys for _ in range(size)]
            await self._plane.submit_many([self._agent.options(serial_key=f"key {n}").submission(at=0.0) for n in numbers])
        else:
            await self._plane.submit_many([self._agent.submission(at=0.0) for _ in range(size)])

    async def settle(self) -> None:
        await self._database.settle()

    async def start_worker(self, started: Started) -> None:
        self._started = started
        self._worker = asyncio.create_task(self._plane.run_worker(concurrency=CONCURRENCY))

    async def remaining(self) -> int:
        return await self._database.count(
            "select (select count(*) from cortex.queue_entry where state in ('ready', 'blocked'))"
            " + (select count(*) from cortex.job_run where status = 'RUNNING')"
        )

    async def check(self, jobs: int) -> None:
        count_of, later = self._database.count, self._order.later_before
        ended = jobs + self._order.finished_before
        same("COMPLETED jobs", await count_of("select count(*) from cortex.job where status = 'COMPLETED'"), ended)
        same("jobs", await count_of("select count(*) from cortex.job"), ended + later)
        same("COMPLETED runs", await count_of("select count(*) from cortex.job_run where status = 'COMPLETED'"), ended)
        same("runs", await count_of("select count(*) from cortex.job_run"), ended)
        same("history rows", await count_of("select count(*) from cortex.job_history"), 3 * ended + later)
        same("queue entries", await count_of("select count(*) from cortex.queue_entry"), later)

    async def stop_worker(self) -> None:
        self._plane.stop_workers()
        if self._worker is not None:
            await self._worker
        await self._database.close()
        await self._plane.close()


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    order = Order.given()
    await measure(CortexPlane(order), order)


if __name__ == "__main__":
    run(main())
