"""Whoever is killed between a decision and what follows from it, the job goes on, and once."""

from __future__ import annotations

import asyncio
import itertools
import signal
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import JobHandle, JobStatus, Plane, Settings
from cortex_plane.approvals.decisions import Decided
from tests.doors.app import AT_THE_END, COMMITTED, register
from tests.durable.app import lines
from tests.end_to_end.fleet import stopped
from tests.end_to_end.inspection import broken_rules
from tests.forked import Forked

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

MOMENTS = ("before", "uncommitted", "committed")
RESUMING = [
    *(("queue/claim", moment, 1) for moment in MOMENTS),
    *(("checkpoints/save", moment, 1) for moment in MOMENTS),
    *(("runs/finish", moment, 1) for moment in MOMENTS),
]


FEWEST_STATEMENTS = 6
"""A decision has more, and each was a place to be killed at."""


class Scene:
    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.effects = url, str(folder / "effects")
        self.plane = Plane(settings=Settings(database_url=url, lease_seconds=0.6, data_dir=str(folder / "files")))
        register(self.plane, self.effects)

    async def waiting(self) -> tuple[JobHandle[Any], str]:
        job = await self.plane.submit("gate")
        await self.work_until(job, JobStatus.WAITING_FOR_APPROVAL)
        [request] = await self.plane.approvals.list(job=job.id)
        return job, request.id

    async def work_until(self, job: JobHandle[Any], status: JobStatus) -> None:
        """Whoever was killed is known here, so that nobody need wait for a lease."""
        workers = self.plane.store.workers
        for record in await workers.list():
            await workers.give_up(record.id)
        worker = asyncio.create_task(self.plane.run_worker(concurrency=1))
        try:
            async with asyncio.timeout(60):
                while await job.status() is not status:
                    await asyncio.sleep(0.02)
        finally:
            await stopped(self.plane, worker)

    async def killed(self, **options: Any) -> int:
        process = Forked("tests.doors.app", {"url": self.url, "effects": self.effects, **options})
        try:
            return await asyncio.to_thread(process.wait, 60)
        finally:
            process.kill()

    async def assert_resumed_once(self, job: JobHandle[Any], request_id: str) -> None:
        assert await job.result(timeout=1) == "approved"
        history = await self.plane.jobs.history(job.id)
        assert [entry.new_status for entry in history if entry.previous_status == "WAITING_FOR_APPROVAL"] == ["RUNNING"]
        entries = await self.plane.store.audit.list(request_id)
        assert [entry.entry.action for entry in entries].count("APPROVAL_APPROVED") == 1
        assert lines(self.effects).count(f"before {job.id}") == 1
        assert await broken_rules(self.url) == {}


@pytest.fixture
def scene(database_url: str, tmp_path: Path) -> Scene:
    return Scene(database_url, tmp_path)


async def test_a_decision_is_whole_or_not_at_all_wherever_the_one_who_decides_is_killed(scene: Scene) -> None:
    async with scene.plane as plane:
        await plane.people.add("alice")
        for point in itertools.count(1):
            job, request_id = await scene.waiting()
            if await scene.killed(decide=request_id, point=point) == 0:
                break
            await _decided_and_resumed(scene, job, request_id, durable=False)
        assert point > FEWEST_STATEMENTS
        for point in (AT_THE_END, COMMITTED):
            job, request_id = await scene.waiting()
            assert await scene.killed(decide=request_id, point=point) == -signal.SIGKILL
            await _decided_and_resumed(scene, job, request_id, durable=point == COMMITTED)


async def _decided_and_resumed(scene: Scene, job: JobHandle[Any], request_id: str, *, durable: bool) -> None:
    """What was not committed did not happen, and can be done again; what was, is not done again."""
    assert await job.status() is (JobStatus.RUNNING if durable else JobStatus.WAITING_FOR_APPROVAL)
    answer = await scene.plane.approvals.approve(request_id, by="alice")
    assert isinstance(answer, Decided)  # Repeated by the same person, it has the same answer.
    await scene.work_until(job, JobStatus.COMPLETED)
    await scene.assert_resumed_once(job, request_id)


async def test_an_approved_job_goes_on_once_wherever_the_worker_that_takes_it_is_killed(scene: Scene) -> None:
    async with scene.plane as plane:
        await plane.people.add("alice")
        for statement, moment, count in RESUMING:
            job, request_id = await scene.waiting()
            assert isinstance(await plane.approvals.approve(request_id, by="alice"), Decided)

            assert await scene.killed(die=[statement, moment, count]) == -signal.SIGKILL, (statement, moment)

            await scene.work_until(job, JobStatus.COMPLETED)
            await scene.assert_resumed_once(job, request_id)
