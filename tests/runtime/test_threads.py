"""Plain functions run in threads of their worker: one that hangs costs its thread, and nobody else."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, JobStatus, Plane
from cortex_plane.durable.resume import LONG_BYTES
from cortex_plane.worker import threads
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, status_becomes, working

pytestmark = pytest.mark.anyio

HUNG = 40


async def test_steps_that_hang_stop_neither_the_others_nor_the_end_of_the_worker(live_plane: Plane) -> None:
    let_go, hanging = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        hanging.release()
        let_go.wait(PATIENCE_SECONDS)

    @live_plane.agent("hangs")
    async def hangs(ctx: Context) -> None:
        await ctx.step("hang", hang)

    @live_plane.agent("works")
    async def works(ctx: Context) -> int:
        return await ctx.step("work", max, [1, 2])

    for _ in range(HUNG):
        await hangs.submit()
    try:
        async with working(live_plane, concurrency=HUNG + 1):

            async def all_hang() -> bool:
                return hanging._value == HUNG

            await eventually(all_hang)
            assert await (await works.submit()).result(timeout=PATIENCE_SECONDS) == 2
    finally:
        let_go.set()


async def test_large_results_do_not_wait_for_the_pool_that_handlers_share(live_plane: Plane) -> None:
    """A handler may fill the pool of `asyncio.to_thread` with calls that hang."""
    let_go, hanging = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        hanging.release()
        let_go.wait(PATIENCE_SECONDS)

    @live_plane.agent("hangs", max_retries=0)
    async def hangs(ctx: Context) -> None:
        await asyncio.gather(*(asyncio.to_thread(hang) for _ in range(64)))

    @live_plane.agent("large")
    async def large(ctx: Context) -> str:
        return 20 * await ctx.step("work", lambda: "x" * 100_000)

    await hangs.submit()
    try:
        async with working(live_plane):

            async def one_hangs() -> bool:
                return hanging._value > 0

            await eventually(one_hangs)
            assert len(await (await large.submit()).result(timeout=PATIENCE_SECONDS)) == 2_000_000
            let_go.set()
    finally:
        let_go.set()


def broken(text: str) -> int:
    raise ValueError(len(text))


async def test_a_long_record_is_loaded_though_handlers_have_filled_the_pool_that_they_share(live_plane: Plane) -> None:
    let_go, hanging = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        hanging.release()
        let_go.wait(PATIENCE_SECONDS)

    @live_plane.agent("hangs", max_retries=0)
    async def hangs(ctx: Context) -> None:
        await asyncio.gather(*(asyncio.to_thread(hang) for _ in range(64)))

    @live_plane.agent("long", max_retries=0)
    async def long(ctx: Context) -> int:
        text = await ctx.step("write", lambda: "x" * (LONG_BYTES + 1))
        return await ctx.step("measure", measure, text)

    measure: Callable[[str], int] = broken
    job = await long.submit()
    await live_plane.run_worker(until_idle=True)
    await hangs.submit()
    try:
        async with working(live_plane):

            async def one_hangs() -> bool:
                return hanging._value > 0

            await eventually(one_hangs)
            measure = len
            assert await (await job.resume()).result(timeout=PATIENCE_SECONDS) == LONG_BYTES + 1
            let_go.set()
    finally:
        let_go.set()


async def test_a_run_has_only_so_many_threads_for_its_steps(live_plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_FOR_A_RUN", 3)
    lock, now, most = threading.Lock(), 0, 0
    three = threading.Barrier(3)

    def work(number: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        three.wait(PATIENCE_SECONDS)
        with lock:
            now -= 1
        return number

    @live_plane.agent("wide")
    async def wide(ctx: Context) -> list[int]:
        return await ctx.gather(*(ctx.step("work", work, number) for number in range(12)))

    job = await wide.submit()
    async with working(live_plane):
        assert await job.result(timeout=PATIENCE_SECONDS) == list(range(12))

    assert most == 3


async def test_a_plain_agent_that_timed_out_is_tried_again_only_when_its_function_has_returned(live_plane: Plane) -> None:
    let_go, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    @live_plane.agent("plain", run_timeout=0.1, max_retries=2)
    def plain(ctx: Context) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if ctx.attempt == 1:
            let_go.wait(PATIENCE_SECONDS)
        with lock:
            running -= 1
        return ctx.attempt

    job = await plain.submit()
    async with working(live_plane, concurrency=5):

        async def past_its_time() -> bool:
            return any("The run timed out" in str(event.data) for event in await live_plane.store.events.list(job.id))

        await eventually(past_its_time)
        held = await job.job()
        let_go.set()
        assert await job.result(timeout=PATIENCE_SECONDS) == 2

    assert (held.status, held.attempt) == (JobStatus.RUNNING, 1)
    assert most == 1
    assert (await job.job()).retry_count == 1


async def test_without_retries_left_a_plain_agent_that_timed_out_fails_at_once(live_plane: Plane) -> None:
    let_go = threading.Event()

    @live_plane.agent("plain", run_timeout=0.1, max_retries=0)
    def plain(ctx: Context) -> None:
        let_go.wait(PATIENCE_SECONDS)

    job = await plain.submit()
    async with working(live_plane):
        await status_becomes(job, JobStatus.FAILED)
        let_go.set()

    assert (await job.job()).error["type"] == "TimedOut"


PROGRAM = """
import asyncio, time
from cortex_plane import Context, Plane

plane = Plane({url!r})

@plane.agent("hangs")
async def hangs(ctx: Context) -> None:
    await ctx.step("hang", hang)

def hang() -> None:
    plane.stop_workers()
    time.sleep(600)

async def main() -> None:
    await hangs.submit()
    await plane.run_worker()
    await plane.close()

asyncio.run(main())
"""


async def test_a_program_ends_although_a_step_hangs(live_plane: Plane, database_url: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(url=database_url))

    environment: dict[str, Any] = {"CORTEX_GRACE_SECONDS": "0.2", "PATH": ""}
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), env=environment)

    assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0
