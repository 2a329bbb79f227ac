"""Results have a size limit, as payloads have: up to it they are kept, by reference if they are large; above, refused by name."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobFailed
from cortex_plane.durable.checkpoint import encoded_result
from cortex_plane.durable.values import JSON
from cortex_plane.storage.database import Database
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio

LIMIT = 2 * 1024 * 1024


@pytest.fixture
def small(plane: TestPlane) -> TestPlane:
    plane.settings = replace(plane.settings, result_limit_bytes=1024, result_max_bytes=LIMIT)
    return plane


async def test_a_large_result_of_a_job_is_kept_apart_and_found_everywhere(small: TestPlane) -> None:
    @small.agent("large")
    async def large(ctx: Context, size: int) -> str:
        return "x" * size

    @small.agent("parent")
    async def parent(ctx: Context) -> int:
        return len(await ctx.call(large, 50_000))

    whole, apart, caller = await large.submit(1_000), await large.submit(100_000), await parent.submit()
    await small.work()
    await small.work()

    assert [len(await job.result()) for job in (whole, apart)] == [1_000, 100_000]
    assert await caller.result() == 50_000
    assert (await apart.job()).output == "x" * 100_000
    database: Database = small.store.jobs._database
    rows = [row for job in (whole, apart) for row in await database.read("jobs/status", id=job.id)]
    assert [row["output"] is None for row in rows] == [False, True]


async def test_a_result_of_a_step_above_the_limit_is_refused_with_its_name(small: TestPlane) -> None:
    def fetch() -> list[str]:
        return ["x" * 1024] * 3 * 1024

    @small.agent("fetches", max_retries=3)
    async def fetches(ctx: Context) -> None:
        await ctx.step("fetch", fetch)

    job = await fetches.submit()
    await small.work()

    with pytest.raises(JobFailed, match='the result of step "fetch" is more than 2,097,152 bytes') as caught:
        await job.result()
    assert "CORTEX_RESULT_MAX_BYTES" in str(caught.value)
    assert (await job.job()).retry_count == 0


async def test_a_result_of_a_job_above_the_limit_is_refused_and_its_worker_goes_on(small: TestPlane) -> None:
    @small.agent("returns")
    def returns(ctx: Context, size: int) -> dict[str, Any]:
        return {"text": "x" * size}

    jobs = [await returns.submit(size) for size in (10, 3 * 1024 * 1024, 20)]
    await small.work()

    assert [len((await jobs[place].result())["text"]) for place in (0, 2)] == [10, 20]
    with pytest.raises(JobFailed, match="result is more than 2,097,152 bytes of JSON; the limit is 2,097,152"):
        await jobs[1].result()


async def test_a_result_just_below_the_limit_is_kept(small: TestPlane) -> None:
    def fetch() -> str:
        return "é" * ((LIMIT - 2) // 2)

    @small.agent("fetches")
    async def fetches(ctx: Context) -> str:
        return await ctx.step("fetch", fetch)

    job = await fetches.submit()
    await small.work()

    assert await job.result() == fetch()


async def test_a_large_result_does_not_block_the_event_loop() -> None:
    """257 MiB of text, and a million numbers: the loop goes on while they are looked at, and refused."""
    for value in ("x" * 257 * 1024 * 1024, [{"number": number} for number in range(1_000_000)]):
        longest, last, ended = 0.0, time.perf_counter(), False

        async def tick() -> None:
            nonlocal longest, last
            while not ended:  # noqa: B023
                await asyncio.sleep(0.01)
                longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

        ticking = asyncio.create_task(tick())
        with pytest.raises(Exception, match="the limit is 1,048,576"):
            await encoded_result(value, JSON, "the result", 1024 * 1024)
        ended = True
        await ticking
        assert longest < 1.0


async def test_a_value_that_holds_itself_is_refused_at_once() -> None:
    circle: list[Any] = []
    circle += [circle, circle]

    async with asyncio.timeout(10):
        with pytest.raises(InvalidInput, match="nested more than"):
            await encoded_result(circle, JSON, "the result", 64 * 1024 * 1024)
