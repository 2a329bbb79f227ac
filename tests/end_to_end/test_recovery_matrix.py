"""What a crash leaves behind, and what becomes of it: the decision matrix of the persistence spec, row by row.

The rows that triggers make impossible are planted with the triggers off, as a damaged or restored database would have them.
"""

from __future__ import annotations

from typing import Any

import apsw
import asyncpg
import pytest

from cortex_plane import JobHandle, JobStatus, Plane, RunStatus
from cortex_plane.ids import new_id
from cortex_plane.worker.rescue import repair_jobs
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.inspection import broken_rules

pytestmark = pytest.mark.anyio


async def plant(url: str, *statements: str) -> None:
    """Changes rows behind the back of every trigger."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        for statement in statements:
            connection.execute(statement.replace("cortex.", ""))
        connection.close()
        return
    server = await asyncpg.connect(url)
    await server.execute("set session_replication_role = replica")
    for statement in statements:
        await server.execute(statement)
    await server.close()


async def killed_while_running(fleet: Fleet, plane: Plane, agent: str) -> JobHandle[Any]:
    """A job whose worker was killed in the middle of it."""
    job = await plane.submit(agent)
    await fleet.dies(fleet.start(die=["handler", "started", 1]))
    assert await job.status() is JobStatus.RUNNING
    return job


async def runs_of(job: JobHandle[Any]) -> list[tuple[RunStatus, str | None]]:
    return [(run.status, run.error) for run in await job.runs()]


async def test_a_queued_job_stays_in_the_queue(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        jobs = [await plane.submit("steady") for _ in range(3)]
        before = [await job.job() for job in jobs]
        await fleet.dies(fleet.start(die=["queue/claim", "before", 1]))

        assert [await job.job() for job in jobs] == before
        await fleet.finish_everything(plane)
        assert [await runs_of(job) for job in jobs] == [[(RunStatus.COMPLETED, None)]] * 3


async def test_a_running_job_with_an_open_run_fails_that_run_and_is_resumed(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await killed_while_running(fleet, plane, "steady")
        await fleet.finish_everything(plane)

        ended = await job.job()
        assert (ended.status, ended.retry_count, ended.crash_count) == (JobStatus.COMPLETED, 0, 1)
        assert await runs_of(job) == [(RunStatus.FAILED, "worker lost"), (RunStatus.COMPLETED, None)]


async def test_a_running_job_that_must_not_run_twice_fails_and_another_is_made(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await killed_while_running(fleet, plane, "once")
        await fleet.finish_everything(plane)

        ended = await job.job()
        assert (ended.status, ended.error_message) == (JobStatus.FAILED, "Scheduler crash recovery")
        assert await runs_of(job) == [(RunStatus.FAILED, "Scheduler crash recovery")]
        successor = plane.job(str(ended.retried_as))
        assert await runs_of(successor) == [(RunStatus.COMPLETED, None)]
        assert fleet.starts_of_jobs() == {job.id: 1, successor.id: 1}


@pytest.mark.parametrize("agent", ["steady", "once"])
async def test_a_running_job_without_a_run_gets_a_failed_one_and_is_retried(fleet: Fleet, agent: str) -> None:
    async with fleet.plane() as plane:
        job = await killed_while_running(fleet, plane, agent)
        await plant(fleet.url, f"delete from cortex.job_run where job_id = '{job.id}'")
        assert await runs_of(job) == []

        assert await repair_jobs(plane.store, new_id, lambda: 0.5) == 1
        await fleet.finish_everything(plane)

        ended = await job.job()
        if agent == "once":
            assert ended.status is JobStatus.FAILED
            assert await runs_of(job) == [(RunStatus.FAILED, "Scheduler crash recovery")]
            assert await plane.job(str(ended.retried_as)).status() is JobStatus.COMPLETED
        else:
            assert ended.status is JobStatus.COMPLETED
            assert await runs_of(job) == [(RunStatus.FAILED, "worker lost"), (RunStatus.COMPLETED, None)]
        assert await broken_rules(fleet.url) == {}


@pytest.mark.parametrize(
    ("run_status", "job_status"),
    [
        (RunStatus.COMPLETED, JobStatus.COMPLETED),
        (RunStatus.FAILED, JobStatus.FAILED),
        (RunStatus.CANCELLED, JobStatus.CANCELLED),
    ],
)
async def test_a_running_job_whose_run_has_ended_takes_its_outcome(
    fleet: Fleet, run_status: RunStatus, job_status: JobStatus
) -> None:
    async with fleet.plane() as plane:
        job = await killed_while_running(fleet, plane, "steady")
        await plant(
            fleet.url,
            f"update cortex.job_run set status = '{run_status}', finished_at = started_at, error = 'planted' "
            f"where job_id = '{job.id}'",
        )

        assert await repair_jobs(plane.store, new_id, lambda: 0.5) == 1
        await fleet.finish_everything(plane)

        ended = await job.job()
        assert ended.status is job_status
        assert ended.finished_at is not None
        assert await runs_of(job) == [(run_status, "planted")]
        assert fleet.starts_of_jobs() == {job.id: 1}
        assert await broken_rules(fleet.url) == {}


async def test_a_repair_of_a_sound_database_changes_nothing(fleet: Fleet) -> None:
    async with fleet.plane() as plane:
        job = await killed_while_running(fleet, plane, "steady")
        before = await job.job()

        assert await repair_jobs(plane.store, new_id, lambda: 0.5) == 0
        assert await job.job() == before


async def test_a_crash_between_failure_and_retry_leaves_both_or_neither(fleet: Fleet) -> None:
    """Spec 4.4: a chained retry is made in the transaction that fails its predecessor, so there is nothing to find later."""
    async with fleet.plane() as plane:
        job = await killed_while_running(fleet, plane, "once")
        await fleet.dies(fleet.start(die=["runs/finish", "uncommitted", 1]))
        neither = await job.job()
        await fleet.dies(fleet.start(die=["runs/finish", "committed", 1]))
        both = await job.job()

    assert (neither.status, neither.retried_as) == (JobStatus.RUNNING, None)
    assert both.status is JobStatus.FAILED
    assert both.retried_as is not None
