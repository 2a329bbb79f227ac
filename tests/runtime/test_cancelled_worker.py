"""Whoever cancels `run_worker()` gets an orderly end: no handler goes on without a worker that keeps its lease."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from cortex_plane import Context, JobStatus, Plane, RunStatus
from cortex_plane.jobs.states import WorkerStatus
from tests.runtime.helpers import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.anyio


class Sleeper:
    """An agent whose first run waits to be interrupted."""

    def __init__(self, plane: Plane, grace: float = 0.0) -> None:
        self.started, self.interrupted = asyncio.Event(), asyncio.Event()

        @plane.agent("sleeper")
        async def sleeper(ctx: Context) -> int:
            if ctx.attempt == 1:
                self.started.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.interrupted.set()
                    raise
            return ctx.attempt

        self.agent = sleeper


async def test_its_handlers_are_interrupted_and_their_jobs_handed_back(live_plane: Plane) -> None:
    sleeper = Sleeper(live_plane)
    job = await sleeper.agent.submit()
    worker = asyncio.create_task(live_plane.run_worker())
    await asyncio.wait_for(sleeper.started.wait(), PATIENCE_SECONDS)

    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(worker, PATIENCE_SECONDS)

    waiting = await job.job()
    assert sleeper.interrupted.is_set()
    assert (waiting.status, waiting.wait_reason, waiting.retry_count) == (JobStatus.RETRY, "interrupted", 0)
    assert [run.status for run in await job.runs()] == [RunStatus.INTERRUPTED]
    assert [worker.status for worker in await live_plane.workers.list()] == [WorkerStatus.STOPPED]


async def test_a_plane_that_is_closed_has_its_workers_leave_first(live_plane: Plane) -> None:
    """As when `async with plane:` is left by an error while a worker runs in the background."""
    sleeper = Sleeper(live_plane)
    job = await sleeper.agent.submit()
    worker = asyncio.create_task(live_plane.run_worker())
    await asyncio.wait_for(sleeper.started.wait(), PATIENCE_SECONDS)

    await asyncio.wait_for(live_plane.close(), PATIENCE_SECONDS)
    await asyncio.wait_for(worker, PATIENCE_SECONDS)
    await live_plane.open()

    waiting = await job.job()
    assert sleeper.interrupted.is_set()
    assert (waiting.status, waiting.wait_reason) == (JobStatus.RETRY, "interrupted")
    assert [worker.status for worker in await live_plane.workers.list()] == [WorkerStatus.STOPPED]


async def test_it_does_not_wait_for_the_time_that_a_stop_gives_to_handlers(live_plane: Plane) -> None:
    started, let_go = asyncio.Event(), asyncio.Event()

    @live_plane.agent("slow")
    async def slow(ctx: Context) -> None:
        started.set()
        await let_go.wait()

    job = await slow.submit()
    worker = asyncio.create_task(live_plane.run_worker())
    await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
    live_plane.stop_workers()  # In order, with time for the handler; then somebody loses patience.
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(worker, PATIENCE_SECONDS)

    assert (await job.job()).wait_reason == "interrupted"


async def test_a_cancel_scope_of_anyio_cancels_it_once(live_plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a scope cancels its tasks in every turn of the loop until they have ended, as in the lifespan of a web application."""
    monkeypatch.setattr("cortex_plane.worker.worker.ECHO_SECONDS", 0.1)
    started, cleaned_up = asyncio.Event(), asyncio.Event()

    @live_plane.agent("careful")
    async def careful(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.5)
            cleaned_up.set()

    job = await careful.submit()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(live_plane.run_worker)
            await started.wait()
            group.cancel_scope.cancel()

    waiting = await job.job()
    assert cleaned_up.is_set()
    assert (waiting.status, waiting.wait_reason) == (JobStatus.RETRY, "interrupted")
    assert [worker.status for worker in await live_plane.workers.list()] == [WorkerStatus.STOPPED]


async def test_cancelling_it_twice_leaves_the_jobs_to_others(live_plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_plane.worker.worker.ECHO_SECONDS", 0.0)
    monkeypatch.setattr("cortex_plane.worker.worker.FINAL_WRITES_SECONDS", 0.2)
    started, let_go = asyncio.Event(), asyncio.Event()

    @live_plane.agent("deaf")
    async def deaf(ctx: Context) -> None:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    job = await deaf.submit()
    worker = asyncio.create_task(live_plane.run_worker())
    await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
    worker.cancel()
    await asyncio.sleep(0)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(worker, PATIENCE_SECONDS)
    let_go.set()

    (record,) = await live_plane.workers.list()
    assert record.status is WorkerStatus.LOST
    assert (await job.job()).status is JobStatus.RUNNING  # Until another worker rescues it.


PROGRAM = """
import asyncio
from cortex_plane import Context, Plane

plane = Plane({url!r})

@plane.agent("slow")
async def slow(ctx: Context) -> None:
    started.set()
    await asyncio.sleep(60)

async def main() -> None:
    global started
    started = asyncio.Event()
    job = await slow.submit()
    working = asyncio.create_task(plane.run_worker())
    await started.wait()
    print("job", job.id)  # The program ends, with a worker in the background.

asyncio.run(main())
"""


async def test_a_program_that_ends_with_a_worker_in_the_background_hands_its_jobs_back(
    live_plane: Plane, database_url: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(url=database_url))

    process = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)

    job = await live_plane.jobs.get(output.decode().partition("job ")[2].split()[0])
    assert process.returncode == 0
    assert (job.status, job.wait_reason, job.retry_count) == (JobStatus.RETRY, "interrupted", 0)


async def test_nothing_that_one_handler_sets_in_its_context_is_seen_by_another(live_plane: Plane) -> None:
    from contextvars import ContextVar

    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen: list[str] = []

    @live_plane.agent("personal")
    async def personal(ctx: Context, name: str) -> None:
        seen.append(user.get())
        user.set(name)
        await ctx.step("work", sorted, [1])

    jobs = [await personal.submit(f"user {number}") for number in range(20)]
    await asyncio.wait_for(live_plane.run_worker(until_idle=True, concurrency=1), PATIENCE_SECONDS)

    assert seen == ["nobody"] * len(jobs)


async def test_a_handler_may_run_a_worker_of_its_own(live_plane: Plane) -> None:
    @live_plane.agent("inner")
    async def inner(ctx: Context) -> str:
        return await ctx.step("inner", lambda: "inner")

    @live_plane.agent("outer", queue="outer")
    async def outer(ctx: Context) -> Any:
        job = await inner.submit()
        await live_plane.run_worker(["default"], until_idle=True)
        return await job.result(timeout=PATIENCE_SECONDS)

    job = await outer.submit()
    await asyncio.wait_for(live_plane.run_worker(["outer"], until_idle=True), PATIENCE_SECONDS)

    async def result() -> Any:
        return await job.result(timeout=PATIENCE_SECONDS)

    assert await eventually(result) == "inner"
