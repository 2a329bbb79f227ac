"""SIGTERM: no more claims, unstarted work handed back, a window for what runs, then an interruption that costs nothing."""

from __future__ import annotations

import asyncio
import signal

import pytest

from cortex_plane import JobStatus, RunStatus, Submission, WaitReason
from cortex_plane.jobs.states import WorkerStatus
from tests.end_to_end.fleet import Fleet, stopped
from tests.end_to_end.inspection import broken_rules
from tests.runtime.helpers import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.anyio

# Two slots and two claimed ahead. In order of submission: what the job does, and what is left of it after the worker's end.
TABLE = [
    (Submission("steady", {"seconds": 0.5}), JobStatus.COMPLETED, None, [RunStatus.COMPLETED]),
    (Submission("steady", {"seconds": 60}), JobStatus.RETRY, WaitReason.INTERRUPTED, [RunStatus.INTERRUPTED]),
    (Submission("steady"), JobStatus.RETRY, WaitReason.HANDED_BACK, [RunStatus.INTERRUPTED]),
    (Submission("steady"), JobStatus.RETRY, WaitReason.HANDED_BACK, [RunStatus.INTERRUPTED]),
    (Submission("steady"), JobStatus.PENDING, None, []),
    (Submission("steady"), JobStatus.PENDING, None, []),
]


async def test_what_is_left_of_each_job(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        jobs = await plane.submit_many([row[0] for row in TABLE])
        positions = [(await job.job()).position for job in jobs]

        process = fleet.start(concurrency=2, ahead=2, lease_seconds=5.0, grace_seconds=2.5)
        await fleet.until_started(2)
        process.send_signal(signal.SIGTERM)
        code = await fleet.ends(process)

        left = [await job.job() for job in jobs]
        runs = [[run.status for run in await job.runs()] for job in jobs]
        assert code == 0
        assert [(job.status, job.wait_reason) for job in left] == [(row[1], row[2]) for row in TABLE]
        assert runs == [row[3] for row in TABLE]
        assert [(job.retry_count, job.crash_count) for job in left] == [(0, 0)] * 6
        assert [job.position for job in left] == positions
        (worker,) = await plane.store.workers.list()
        assert worker.status is WorkerStatus.STOPPED
        assert await broken_rules(fleet.url) == {}


async def test_the_rest_goes_on_elsewhere_at_once_and_in_order(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        jobs = await plane.submit_many([Submission("steady", {"seconds": 0.3})] * 6)
        process = fleet.start(concurrency=2, ahead=2, lease_seconds=60.0, grace_seconds=0.0)
        await fleet.until_started(2)
        process.send_signal(signal.SIGTERM)
        await fleet.ends(process)

        # The lease of the first worker would last for a minute; nobody has to wait for its end.
        worker = asyncio.create_task(plane.run_worker(concurrency=1))
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)
        await stopped(plane, worker)

    assert [job_id for job_id, _ in fleet.starts()[2:]] == [job.id for job in jobs]
    assert await broken_rules(fleet.url) == {}


async def test_a_handler_sees_that_its_worker_stops_and_may_finish(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await plane.submit("plain", {"seconds": 0.5})
        process = fleet.start(lease_seconds=5.0, grace_seconds=10.0)
        await fleet.until_started(1)
        process.send_signal(signal.SIGTERM)
        code = await fleet.ends(process)

        assert code == 0
        assert await job.status() is JobStatus.COMPLETED
        assert [what for what, _, _ in fleet.lines()] == ["start", "done"]


async def test_a_plain_function_that_heeds_its_interruption_has_returned_before_its_job_goes_on(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await plane.submit("plain", {"seconds": 30})
        process = fleet.start(lease_seconds=5.0, grace_seconds=0.2)
        await fleet.until_started(1)
        process.send_signal(signal.SIGTERM)
        code = await fleet.ends(process)

        waiting = await job.job()
        assert code == 0
        assert (waiting.status, waiting.wait_reason, waiting.retry_count) == (JobStatus.RETRY, WaitReason.INTERRUPTED, 0)
        assert [what for what, _, _ in fleet.lines()] == ["start", "told"]


async def test_a_second_signal_ends_it_at_once_and_the_jobs_are_rescued(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await plane.submit("steady", {"seconds": 3})
        process = fleet.start(lease_seconds=1.0, grace_seconds=60.0)
        await fleet.until_started(1)
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        assert process.poll() is None  # It gives its handler the time that it was promised.

        async def ended() -> bool:
            process.send_signal(signal.SIGTERM)  # Again, if the first one had not even been noticed.
            return process.poll() is not None

        await eventually(ended)

        assert process.returncode == -signal.SIGTERM
        assert await job.status() is JobStatus.RUNNING
        await fleet.finish_everything(plane)
        rescued = await job.job()

    assert (rescued.status, rescued.retry_count) == (JobStatus.COMPLETED, 0)
    assert await broken_rules(fleet.url) == {}


async def test_an_idle_worker_ends_at_once(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        process = fleet.start(lease_seconds=5.0, grace_seconds=60.0)
        await fleet.until("select count(*) = 1 from cortex.worker")
        await (await plane.submit("steady")).result(timeout=PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        code = await fleet.ends(process)  # Who waits for nothing would do so for a minute.

    assert code == 0
