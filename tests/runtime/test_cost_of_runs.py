"""`ctx.cost`: what a handler says it has spent is stored with what became of the run."""

from __future__ import annotations

import asyncio
import sys
import threading
from decimal import Decimal
from typing import Any

import pytest

from cortex_plane import Backoff, Context, JobStatus, RetryPolicy
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import JobId, RunId
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


async def spent(plane: TestPlane) -> int:
    return sum(total.cents for total in await plane.store.costs.totals())


async def test_what_a_handler_spends_is_on_its_job(plane: TestPlane) -> None:
    @plane.agent("buyer")
    async def buyer(ctx: Context) -> None:
        ctx.cost(3)
        ctx.cost(4)

    job = await buyer.submit()
    await plane.work()

    assert (await job.job()).cost_cents == 7
    assert await spent(plane) == 7


async def test_a_run_that_fails_costs_and_so_does_its_retry(plane: TestPlane) -> None:
    @plane.agent("unlucky", retry=RetryPolicy(max_retries=1, backoff=Backoff(base_seconds=0.0)))
    def unlucky(ctx: Context) -> None:
        ctx.cost(5)
        raise ValueError("no")

    job = await unlucky.submit()
    await plane.work()

    found = await job.job()
    assert (found.status, found.attempt, found.cost_cents) == (JobStatus.FAILED, 2, 10)


async def test_a_run_that_is_interrupted_costs(plane: TestPlane) -> None:
    spent_it = asyncio.Event()

    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        ctx.cost(5)
        spent_it.set()
        await asyncio.sleep(60)

    job = await slow.submit()
    async with working(plane):
        await asyncio.wait_for(spent_it.wait(), PATIENCE_SECONDS)

    found = await job.job()
    assert (found.status, found.cost_cents) == (JobStatus.RETRY, 5)


async def test_a_run_that_is_cancelled_leaves_no_cost(plane: TestPlane) -> None:
    """Its job has ended without it, and nothing that it says is kept."""

    spent_it = asyncio.Event()

    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        ctx.cost(5)
        spent_it.set()
        await asyncio.sleep(60)

    job = await slow.submit()
    async with working(plane):
        await asyncio.wait_for(spent_it.wait(), PATIENCE_SECONDS)
        await job.cancel()

    assert (await job.job()).cost_cents == 0
    assert await spent(plane) == 0


def context() -> Context:
    return Context(JobId("j"), RunId("r"), "echo", "default", 1)


@pytest.mark.parametrize("cents", [-1, 1.0, 0.5, Decimal(1), True, "1", None, 10**13])
async def test_only_whole_cents_can_be_spent(cents: Any) -> None:
    ctx = context()

    with pytest.raises(InvalidInput, match="cents must be a whole number") as refused:
        ctx.cost(cents)

    assert (refused.value.field, ctx.cost_cents) == ("cents", 0)


async def test_a_run_cannot_cost_more_than_can_be_stored() -> None:
    ctx = context()
    ctx.cost(10**12)

    with pytest.raises(InvalidInput):
        ctx.cost(1)

    assert ctx.cost_cents == 10**12


async def test_threads_of_a_handler_add_up() -> None:
    ctx = context()

    def spend() -> None:
        for _ in range(2_000):
            ctx.cost(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # So often that a sum without a lock is lost.
    try:
        threads = [threading.Thread(target=spend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert ctx.cost_cents == 16_000
