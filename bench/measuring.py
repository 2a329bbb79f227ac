"""The story that every system is put through. Standard library only: peers run in another environment.

install ──▶ submit one by one ──▶ submit in batches ──▶ settle ──▶ drain ──▶ check the counts ──▶ spaced jobs ──▶ stop
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from bench.order import Order, tell

BATCH = 1_000
LOOK_SECONDS = 0.005
SPACING_SECONDS = 0.02
REST_SECONDS = 0.5
PATIENCE_SECONDS = 120.0

Started = Callable[[float], None]


class System(Protocol):
    """What a driver does with its system. A job carries the moment of its submission; its handler hands that to `started`."""

    async def install(self) -> None: ...

    async def submit(self, at: float) -> None: ...

    async def submit_batch(self, size: int) -> None: ...

    async def settle(self) -> None:
        """The same start for all: tables analyzed, nothing left to write to disk."""

    async def start_worker(self, started: Started) -> None: ...

    async def remaining(self) -> int:
        """Jobs that, as the database shows, have not ended."""

    async def check(self, jobs: int) -> None:
        """Raises when the database does not show that each job was done, once."""

    async def stop_worker(self) -> None: ...


async def measure(system: System, order: Order) -> None:
    await system.install()
    await _measure_submitting(system, order)
    if order.settle:
        await system.settle()
    handler = Handler()
    await _measure_drain(system, handler, order.jobs)
    await system.check(order.jobs)
    if order.spaced:
        await _measure_latency(system, handler, order.spaced)
    await system.stop_worker()


class Handler:
    """What a no-op handler calls when it starts: first it counts, later it keeps delays. Any thread may call it."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._left = 0
        self._done = asyncio.Event()

    def expect(self, jobs: int) -> None:
        self.delays.clear()
        self._left = jobs
        self._done.clear()

    def started(self, at: float) -> None:
        if at:
            self.delays.append(perf_counter() - at)
        self._left -= 1
        if self._left == 0:
            self._loop.call_soon_threadsafe(self._done.set)

    async def all_started(self) -> None:
        await asyncio.wait_for(self._done.wait(), PATIENCE_SECONDS)


async def _measure_submitting(system: System, order: Order) -> None:
    if order.singles:
        began = perf_counter()
        for _ in range(order.singles):
            await system.submit(0.0)
        tell("submit_one", order.singles / (perf_counter() - began))
    in_batches = order.jobs - order.singles
    if in_batches:
        began = perf_counter()
        for first in range(0, in_batches, BATCH):
            await system.submit_batch(min(BATCH, in_batches - first))
        tell("submit_batch", in_batches / (perf_counter() - began))


async def _measure_drain(system: System, handler: Handler, jobs: int) -> None:
    handler.expect(jobs)
    began = perf_counter()
    await system.start_worker(handler.started)
    await handler.all_started()
    await _nothing_remains(system)
    tell("drain", jobs / (perf_counter() - began))


async def _nothing_remains(system: System) -> None:
    until = perf_counter() + PATIENCE_SECONDS
    while remaining := await system.remaining():
        if perf_counter() > until:
            raise TimeoutError(f"{remaining} jobs never ended.")
        await asyncio.sleep(LOOK_SECONDS)


async def _measure_latency(system: System, handler: Handler, jobs: int) -> None:
    await asyncio.sleep(REST_SECONDS)
    handler.expect(jobs)
    for _ in range(jobs):
        await system.submit(perf_counter())
        await asyncio.sleep(SPACING_SECONDS)
    await handler.all_started()
    milliseconds = sorted(1000 * delay for delay in handler.delays)
    tell("latency_p50", milliseconds[jobs // 2])
    tell("latency_p99", milliseconds[jobs * 99 // 100])


def same(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found:,} found, {expected:,} expected. This measurement is void.")
