"""Workers are real processes here, and are really killed: what becomes of their jobs, how soon, and who is blamed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, JobHandle, JobStatus, Plane, RunStatus, Settings
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.testing import ManualClock
from tests.contract.support import raw_client
from tests.end_to_end.inspection import broken_rules
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, is_alive, process_ends, working

pytestmark = pytest.mark.anyio

PROGRAM = "from cortex_plane.cli.main import main; main()"
APP = """
import asyncio, os, signal, sys
from pathlib import Path
from cortex_plane import Context, DeadlineExceeded, JobCancelled, Plane

plane = Plane()
here = Path(__file__).parent

@plane.agent("poison")
async def poison(ctx: Context, seconds: float = 0.0) -> None:
    note(ctx)
    await asyncio.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)

@plane.agent("exits", crash_limit=2)
def exits(ctx: Context) -> None:
    note(ctx)
    os._exit(3)

@plane.agent("steps")
async def steps(ctx: Context, count: int) -> int:
    note(ctx)
    for number in range(count):
        await ctx.step("work", asyncio.sleep, 0.01)
        if number % 2 == 1 and not (here / f"died-{ctx.job_id}-{number}").exists():
            (here / f"died-{ctx.job_id}-{number}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return count

@plane.agent("waits")
async def waits(ctx: Context, seconds: float) -> str:
    note(ctx)
    await asyncio.sleep(seconds)
    return await ctx.step("answer", lambda: "done")

@plane.agent("stubborn")
async def stubborn(ctx: Context) -> str:
    note(ctx)
    if ctx.attempt <= 2:
        os.kill(os.getpid(), signal.SIGKILL)
    await ctx.step("first", lambda: 1)
    while not (here / "go").exists():
        await asyncio.sleep(0.02)
    return await ctx.tool("tell", lambda: "alone")

@plane.agent("guest")
async def guest(ctx: Context) -> None:
    async with ctx.cleanup(timeout=60):
        await ctx.tool("reserve", lambda: "room")
        note(ctx)
        try:
            while True:
                await asyncio.sleep(0.02)
        except (JobCancelled, DeadlineExceeded) as error:
            await ctx.tool("release", (here / "released").write_text, type(error).__name__)
            raise

@plane.agent("attentive")
async def attentive(ctx: Context) -> str:
    note(ctx)
    while not ctx.stopping:
        await asyncio.sleep(0.02)
    return "left in time"

def note(ctx: Context) -> None:
    with (here / "starts").open("a") as file:
        file.write(f"{ctx.job_id} {os.getpid()} {os.getppid()}\\n")
"""


class Machine:
    """Workers as an operator starts them, each by `cortex worker`, started anew when they die if that is asked for."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.workers: list[subprocess.Popen[bytes]] = []
        (folder / "app.py").write_text(APP)
        (folder / "starts").touch()

    def start(self, lease_seconds: float = 15.0, concurrency: int = 20, grace_seconds: float = 0.5) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "CORTEX_DATABASE_URL": self.url,
            "CORTEX_LEASE_SECONDS": str(lease_seconds),
            "CORTEX_GRACE_SECONDS": str(grace_seconds),
            "CORTEX_DATA_DIR": str(self.folder / "files"),
        }
        words = [sys.executable, "-c", PROGRAM, "worker", str(self.folder / "app.py")]
        with (self.folder / f"worker-{len(self.workers)}.log").open("wb") as log:
            process = subprocess.Popen([*words, "--concurrency", str(concurrency)], env=environment, stdout=log, stderr=log)
        self.workers.append(process)
        return process

    def started(self, job: JobHandle[Any] | None = None) -> list[tuple[int, int]]:
        """Process and parent of each start of a handler."""
        lines = [line.split() for line in (self.folder / "starts").read_text().splitlines()]
        return [(int(pid), int(parent)) for job_id, pid, parent in lines if job is None or job.id == job_id]

    async def until_started(self, job: JobHandle[Any], times: int = 1) -> tuple[int, int]:
        async def enough() -> bool:
            return len(self.started(job)) >= times

        await eventually(enough)
        return self.started(job)[times - 1]

    async def until_ended(self, job: JobHandle[Any], *, restart: bool = True, **options: Any) -> JobStatus:
        """As a supervisor would: whichever worker dies is started anew."""

        async def ended() -> JobStatus | None:
            if restart and all(worker.poll() is not None for worker in self.workers):
                self.start(**options)
            status = await job.status()
            return status if status.is_terminal else None

        status: JobStatus = await eventually(ended, 2 * PATIENCE_SECONDS)
        return status

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def machine(database_url: str, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(database_url, tmp_path)
    yield machine
    machine.close()
    for log in sorted(tmp_path.glob("worker-*.log")):
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[Plane]:
    async with Plane(settings=Settings(database_url=database_url)) as plane:
        yield plane


async def test_a_job_that_kills_its_process_is_condemned_alone_and_its_neighbours_finish(machine: Machine, client: Plane) -> None:
    machine.start()
    await live(client)
    neighbours = [await client.submit("waits", {"seconds": 1.0}) for _ in range(5)]
    poison = await client.submit("poison", {"seconds": 0.3})

    assert await machine.until_ended(poison) is JobStatus.FAILED
    assert [await machine.until_ended(job) for job in neighbours] == [JobStatus.COMPLETED] * 5

    ended = await poison.job()
    assert (ended.error["type"], ended.crash_count) == ("POISONED", 3)
    assert "alone in a process of its own" in str(ended.error_message)
    assert len(machine.started(poison)) == 3
    assert len([worker for worker in machine.workers if worker.poll() is not None]) == 2  # The third time it was alone.
    assert await broken_rules(machine.url) == {}


async def test_a_plain_function_that_exits_is_condemned_in_the_same_way(machine: Machine, client: Plane) -> None:
    machine.start()
    await live(client)
    job = await client.submit("exits")

    assert await machine.until_ended(job) is JobStatus.FAILED
    assert (await job.job()).error["type"] == "POISONED"
    assert len(machine.started(job)) == 3


async def test_a_job_that_makes_progress_between_its_crashes_completes(machine: Machine, client: Plane) -> None:
    machine.start()
    await live(client)
    job = await client.submit("steps", {"count": 10})

    assert await machine.until_ended(job) is JobStatus.COMPLETED
    assert await job.result() == 10
    assert len(machine.started(job)) == 6
    assert {parent for _, parent in machine.started(job)} == {os.getpid()}  # It was never suspect.


async def test_a_suspect_runs_in_a_process_of_its_own_to_its_end(machine: Machine, client: Plane) -> None:
    machine.start()
    await live(client)
    job = await client.submit("stubborn")
    for times in (1, 2):
        await machine.until_started(job, times)
        await asyncio.to_thread(machine.workers[-1].wait, PATIENCE_SECONDS)
        worker = machine.start()
    pid, parent = await machine.until_started(job, 3)
    fresh = await client.submit("waits", {"seconds": 0.0})
    answer = await fresh.result(timeout=PATIENCE_SECONDS)  # New work never waits for it.
    (machine.folder / "go").touch()

    assert (await job.result(timeout=PATIENCE_SECONDS), answer) == ("alone", "done")
    assert (parent, worker.poll()) == (worker.pid, None)
    await process_ends(pid)
    assert [run.status for run in await job.runs()] == [RunStatus.FAILED, RunStatus.FAILED, RunStatus.COMPLETED]


async def suspect(machine: Machine, client: Plane, **options: Any) -> tuple[JobHandle[Any], int]:
    """A job in a process of its own that waits there, and its pid."""
    machine.start(**options)
    await live(client)
    job = await client.submit("stubborn")
    for times in (1, 2):
        await machine.until_started(job, times)
        await asyncio.to_thread(machine.workers[-1].wait, PATIENCE_SECONDS)
        machine.start(**options)
    pid, _ = await machine.until_started(job, 3)
    return job, pid


async def submit_suspect(machine: Machine, client: Plane, agent: str, **options: Any) -> JobHandle[Any]:
    """A job that has killed two workers already, as its row says."""
    await live(client)
    await client.gate.close()
    job: JobHandle[Any] = await client.submit(agent, **options)
    async with raw_client(machine.url, ManualClock()) as raw:
        await raw(f"update cortex.job set crash_count = 2 where id = '{job.id}'")
    await client.gate.open()
    return job


async def test_a_suspect_may_call_tools_as_long_as_the_lease_of_its_worker_is_renewed(machine: Machine, client: Plane) -> None:
    job, _ = await suspect(machine, client, lease_seconds=3.0)

    async def outlived_its_first_lease() -> bool:
        workers = [worker for worker in await client.workers.list() if worker.status is WorkerStatus.LIVE]
        return any((worker.heartbeat_at - worker.started_at).total_seconds() > 3.5 for worker in workers)

    await eventually(outlived_its_first_lease)
    (machine.folder / "go").touch()

    assert await job.result(timeout=PATIENCE_SECONDS) == "alone"


async def test_the_process_of_a_suspect_dies_with_its_worker(machine: Machine, client: Plane) -> None:
    job, pid = await suspect(machine, client)

    machine.workers[-1].kill()
    machine.workers[-1].wait()
    await process_ends(pid)
    (machine.folder / "go").touch()

    assert await machine.until_ended(job) is JobStatus.COMPLETED


async def test_a_suspect_that_is_cancelled_ends_with_its_process(machine: Machine, client: Plane) -> None:
    job, pid = await suspect(machine, client)

    await job.cancel()
    await process_ends(pid)

    assert await job.status() is JobStatus.CANCELLED
    assert machine.workers[-1].poll() is None


@pytest.mark.parametrize("ended_by", ["cancel", "deadline"])
async def test_a_suspect_cleans_up_in_its_process(machine: Machine, client: Plane, ended_by: str) -> None:
    machine.start()
    job = await submit_suspect(machine, client, "guest", deadline=None if ended_by == "cancel" else 5.0)
    _, parent = await machine.until_started(job)
    assert parent == machine.workers[-1].pid
    asked_at = time.monotonic()

    if ended_by == "cancel":
        await job.cancel()
    status = await machine.until_ended(job, restart=False)

    assert status is (JobStatus.CANCELLED if ended_by == "cancel" else JobStatus.FAILED)
    assert (machine.folder / "released").read_text() == ("RunCancelled" if ended_by == "cancel" else "DeadlineExceeded")
    assert time.monotonic() - asked_at < PATIENCE_SECONDS  # Long before the scope's own time is over.
    assert len(machine.started(job)) == 1


async def test_a_suspect_is_told_that_its_worker_stops(machine: Machine, client: Plane) -> None:
    machine.start(grace_seconds=PATIENCE_SECONDS)
    job = await submit_suspect(machine, client, "attentive")
    await machine.until_started(job)

    machine.workers[-1].send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(machine.workers[-1].wait, PATIENCE_SECONDS) == 0

    assert await job.result(timeout=1) == "left in time"


async def test_a_suspect_is_handed_back_when_its_worker_stops_in_order(machine: Machine, client: Plane) -> None:
    job, pid = await suspect(machine, client)

    machine.workers[-1].send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(machine.workers[-1].wait, PATIENCE_SECONDS) == 0

    waiting = await job.job()
    assert not is_alive(pid)
    assert (waiting.status, waiting.wait_reason, waiting.crash_count) == (JobStatus.RETRY, "interrupted", 2)


async def test_a_suspect_is_not_condemned_when_all_processes_are_told_to_end(machine: Machine, client: Plane) -> None:
    """As systemd does: it signals every process of a service, not the worker alone."""
    job, pid = await suspect(machine, client)

    os.kill(pid, signal.SIGTERM)
    machine.workers[-1].send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(machine.workers[-1].wait, PATIENCE_SECONDS) == 0

    waiting = await job.job()
    assert (waiting.status, waiting.wait_reason, waiting.crash_count) == (JobStatus.RETRY, "interrupted", 2)


async def test_a_suspect_whose_process_is_told_to_end_before_it_can_hear_goes_on_elsewhere(
    client: Plane, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    @client.agent("suspect")
    async def agent(ctx: Context) -> None:
        called.append(ctx.run_id)

    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -TERM $$\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    client.app = "app:plane"
    job = await agent.submit()
    async with raw_client(database_url, ManualClock()) as raw:
        await raw(f"update cortex.job set crash_count = 2 where id = '{job.id}'")

    async def handed_back() -> bool:
        return any(run.status is RunStatus.INTERRUPTED for run in await job.runs())

    async with working(client):
        await eventually(handed_back)

    assert called == []
    assert (await job.job()).crash_count == 2


async def test_after_a_kill_a_worker_of_the_same_machine_goes_on_at_once(machine: Machine, client: Plane) -> None:
    """The lease of the dead one has long to go."""
    first = machine.start(lease_seconds=600.0)
    await live(client)
    jobs = [await client.submit("waits", {"seconds": 600.0}) for _ in range(20)]
    for job in jobs:
        await machine.until_started(job)
    survivor = machine.start(lease_seconds=600.0, concurrency=30)
    await live(client, 2)

    first.kill()
    first.wait()
    killed_at = time.monotonic()
    for job in jobs:
        await machine.until_started(job, 2)
    took = time.monotonic() - killed_at

    assert survivor.poll() is None
    assert took < 10.0, took  # Mostly about one second; the machine may be busy.
    print(f"all {len(jobs)} went on {took:.2f} s after the kill")


async def test_a_worker_that_is_started_after_a_kill_goes_on_at_once(machine: Machine, client: Plane) -> None:
    first = machine.start(lease_seconds=600.0)
    await live(client)
    job = await client.submit("waits", {"seconds": 600.0})
    await machine.until_started(job)

    first.kill()
    first.wait()
    machine.start(lease_seconds=600.0)
    began = time.monotonic()
    await machine.until_started(job, 2)

    print(f"it went on {time.monotonic() - began:.2f} s after the start of another worker")
    assert time.monotonic() - began < 15.0


async def live(client: Plane, count: int = 1) -> None:
    async def enough() -> bool:
        return len([worker for worker in await client.workers.list() if worker.status is WorkerStatus.LIVE]) >= count

    await eventually(enough)
