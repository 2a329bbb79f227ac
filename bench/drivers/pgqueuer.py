"""PgQueuer: one worker that listens, batches of 100, on uvloop as its own command runs it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from bench.measuring import Started, measure, same
from bench.order import Order


class PgQueuerSystem:
    def __init__(self, order: Order) -> None:
        self._url = order.database
        self._batch_size: int = order.options["batch_size"]

    async def install(self) -> None:
        self._connection: asyncpg.Connection[Any] = await asyncpg.connect(self._url)
        self._queries = Queries(AsyncpgDriver(self._connection))
        await self._queries.install()

    async def submit(self, at: float) -> None:
        await self._queries.enqueue("noop", str(at).encode())

    async def submit_batch(self, size: int) -> None:
        await self._queries.enqueue(["noop"] * size, [b"0.0"] * size, [0] * size)

    async def settle(self) -> None:
        await self._connection.execute("vacuum analyze")
        await self._connection.execute("checkpoint")

    async def start_worker(self, started: Started) -> None:
        async def noop(job: Any) -> None:
            started(float(job.payload))

        self._queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(self._url))
        self._queuer.entrypoint("noop")(noop)
        self._worker = asyncio.create_task(self._queuer.run(batch_size=self._batch_size))

    async def remaining(self) -> int:
        """It deletes what has ended."""
        return int(await self._connection.fetchval("select count(*) from pgqueuer"))

    async def check(self, jobs: int) -> None:
        successful = "select count(*) from pgqueuer_log where status = 'successful'"
        same("successful jobs in the log", await self._connection.fetchval(successful), jobs)

    async def stop_worker(self) -> None:
        self._worker.cancel()
        await asyncio.wait([self._worker], timeout=5)


async def main() -> None:
    logging.disable(logging.CRITICAL)
    order = Order.given()
    await measure(PgQueuerSystem(order), order)


if __name__ == "__main__":
    uvloop.run(main())
