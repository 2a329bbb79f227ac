"""Procrastinate: one worker that listens, with a pool of connections large enough for its concurrency."""

from __future__ import annotations

import asyncio
import logging

import psycopg
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from bench.measuring import Started, measure, same
from bench.order import Order


class Procrastinate:
    def __init__(self, order: Order) -> None:
        self._url = order.database
        self._concurrency: int = order.options["concurrency"]
        self._app = App(connector=PsycopgConnector(conninfo=self._url, min_size=4, max_size=self._concurrency + 4))
        self._task = self._app.task(name="noop")(self._noop)
        self._started: Started = lambda at: None

    async def _noop(self, at: float) -> None:
        self._started(at)

    async def install(self) -> None:
        self._connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def submit(self, at: float) -> None:
        await self._task.defer_async(at=at)

    async def submit_batch(self, size: int) -> None:
        await self._task.batch_defer_async(*[{"at": 0.0}] * size)

    async def settle(self) -> None:
        await self._connection.execute("vacuum analyze")
        await self._connection.execute("checkpoint")

    async def start_worker(self, started: Started) -> None:
        self._started = started
        worker = self._app.run_worker_async(concurrency=self._concurrency, install_signal_handlers=False)
        self._worker = asyncio.create_task(worker)

    async def remaining(self) -> int:
        return await self._count("status in ('todo', 'doing')")

    async def check(self, jobs: int) -> None:
        same("succeeded jobs", await self._count("status = 'succeeded'"), jobs)

    async def _count(self, condition: str) -> int:
        found = await self._connection.execute(f"select count(*) from procrastinate_jobs where {condition}".encode())
        return int((await found.fetchone() or (0,))[0])

    async def stop_worker(self) -> None:
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        await self._connection.close()
        await self._app.close_async()


async def main() -> None:
    logging.disable(logging.CRITICAL)
    order = Order.given()
    await measure(Procrastinate(order), order)


if __name__ == "__main__":
    asyncio.run(main())
