"""Draining: whoever may, asks a worker in another process to leave; it stops as with SIGTERM, and its jobs lose nothing."""

from __future__ import annotations

import pytest

from cortex_plane import JobStatus, RunStatus, Submission, WaitReason
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.inspection import broken_rules
from tests.runtime.helpers import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

# Two slots and two claimed ahead. In order of submission: what the job does, and what is left of it after the worker's end.
TABLE = [
    (Submission("steady", {"seconds": 2.0}), JobStatus.COMPLETED, None, [RunStatus.COMPLETED]),
    (Submission("steady", {"seconds": 60}), JobStatus.RETRY, WaitReason.INTERRUPTED, [RunStatus.INTERRUPTED]),
    (Submission("steady"), JobStatus.RETRY, WaitReason.HANDED_BACK, [RunStatus.INTERRUPTED]),
    (Submission("steady"), JobStatus.RETRY, WaitReason.HANDED_BACK, [RunStatus.INTERRUPTED]),
    (Submission("steady"), JobStatus.PENDING, None, []),
]


async def test_a_drained_worker_leaves_as_one_that_was_signalled(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        jobs = await plane.submit_many([row[0] for row in TABLE])
        process = fleet.start(concurrency=2, ahead=2, lease_seconds=1.5, grace_seconds=3.0)
        await fleet.until_started(2)
        [worker] = await plane.workers.list()

        asked = await plane.workers.drain(worker.id, actor="ada", reason="a new machine")
        between = (await plane.workers.get(worker.id)).standing
        code = await fleet.ends(process)

        left = [await job.job() for job in jobs]
        assert (asked, between, code) == (True, "DRAINING", 0)
        assert [(job.status, job.wait_reason) for job in left] == [(row[1], row[2]) for row in TABLE]
        assert [[run.status for run in await job.runs()] for job in jobs] == [row[3] for row in TABLE]
        assert [(job.retry_count, job.crash_count) for job in left] == [(0, 0)] * len(TABLE)
        assert [one.standing for one in await plane.workers.list()] == ["DRAINED"]
        assert await broken_rules(fleet.url) == {}


async def test_only_the_worker_that_was_asked_leaves(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        first = fleet.start(lease_seconds=1.5)
        await fleet.until("select count(*) = 1 from cortex.worker")
        [leaving] = await plane.workers.list()
        second = fleet.start(lease_seconds=1.5)
        await fleet.until("select count(*) = 2 from cortex.worker")

        await plane.workers.drain(leaving.name)
        assert await fleet.ends(first) == 0

        await (await plane.submit("steady")).result(timeout=PATIENCE_SECONDS)
        assert second.poll() is None
        assert {one.standing for one in await plane.workers.list()} == {"DRAINED", "LIVE"}
