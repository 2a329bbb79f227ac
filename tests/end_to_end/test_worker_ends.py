"""How the end of a worker process looks from outside: blocked loops, poisonous jobs, programs left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cortex_plane import JobStatus, RunStatus
from cortex_plane.worker.loop_watch import EXIT_BLOCKED
from tests.end_to_end.fleet import Fleet, stopped
from tests.end_to_end.inspection import broken_rules
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, process_ends

pytestmark = pytest.mark.anyio


def first_number(folder: Path) -> int | None:
    """What the first program has written into its log, once the line is complete."""
    texts = [log.read_text() for log in folder.glob("runs/*/*/output.log")]
    return next((int(text) for text in texts if text.endswith("\n")), None)


async def test_a_handler_that_blocks_its_loop_for_longer_than_the_lease_keeps_its_job(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await plane.submit("block", {"seconds": 2.5})
        fleet.start(lease_seconds=1.0)
        await fleet.until_started(1)
        other = asyncio.create_task(plane.run_worker())  # It would rescue the job, had the lease run out.
        answer = await job.result(timeout=PATIENCE_SECONDS)
        await stopped(plane, other)

        assert answer == job.id
        assert [run.status for run in await job.runs()] == [RunStatus.COMPLETED]
    assert fleet.starts_of_jobs() == {job.id: 1}
    assert await broken_rules(fleet.url) == {}


async def test_a_loop_that_stays_blocked_ends_its_process_and_the_job_goes_on_elsewhere(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await plane.submit("block", {"seconds": 60})
        process = fleet.start(lease_seconds=0.6, event_loop_timeout=1.0)
        code = await fleet.ends(process)
        await fleet.finish_everything(plane)

        assert code == EXIT_BLOCKED
        assert await job.status() is JobStatus.COMPLETED
        assert [(run.status, run.error) for run in await job.runs()] == [
            (RunStatus.FAILED, "worker lost"),
            (RunStatus.COMPLETED, None),
        ]


async def test_a_program_dies_with_the_worker_that_ran_it(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await plane.submit("program")
        process = fleet.start(lease_seconds=60.0)
        logs = Path(f"{fleet.effects}.files")

        async def said_who_it_is() -> int | None:
            return first_number(logs)

        pid = await eventually(said_who_it_is)
        process.kill()
        await process_ends(pid)

        assert await job.status() is JobStatus.RUNNING  # Until the lease of its worker has run out.
