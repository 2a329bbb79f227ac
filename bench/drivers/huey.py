"""Huey on SQLite: one thread. It deletes a job before it runs it, so a crash loses it, and it keeps no history."""

from __future__ import annotations

import asyncio
import logging
import os

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.measuring import Started, measure, same
from bench.order import Order

POLL_SECONDS = 0.005


class Huey:
    def __init__(self, order: Order) -> None:
        self._huey = SqliteHuey(filename=order.database, fsync=order.options["fsync"], results=False, immediate=False)
        self._task = self._huey.task()(self._noop)
        self._started: Started = lambda at: None
        self._runs = 0

    def _noop(self, at: float) -> None:
        self._runs += 1
        self._started(at)

    async def install(self) -> None:
        """Its tables are made when it is."""

    async def submit(self, at: float) -> None:
        self._task(at)

    async def submit_batch(self, size: int) -> None:
        raise NotImplementedError("Huey has no batches.")

    async def settle(self) -> None:
        self._huey.storage.conn.execute("analyze")
        self._huey.storage.conn.execute("pragma wal_checkpoint(restart)").fetchall()

    async def start_worker(self, started: Started) -> None:
        self._started = started
        self._consumer = self._huey.create_consumer(
            workers=1,
            periodic=False,
            initial_delay=POLL_SECONDS,
            max_delay=POLL_SECONDS,
            backoff=1.0,
            check_worker_health=False,
        )
        self._consumer.start()

    async def remaining(self) -> int:
        return int(self._huey.pending_count())

    async def check(self, jobs: int) -> None:
        """It keeps nothing that could be counted, so its own word is taken."""
        same("handler calls", self._runs, jobs)

    async def stop_worker(self) -> None:
        """Its threads end only with the process."""


async def main() -> None:
    logging.disable(logging.CRITICAL)
    order = Order.given()
    await measure(Huey(order), order)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)
