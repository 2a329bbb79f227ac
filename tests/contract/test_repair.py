"""Rows that the triggers make impossible, as a damaged or restored database may hold them: the recovery matrix."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import apsw
import pytest

from cortex_plane.adapters.system import new_id
from cortex_plane.core.jobs import Claimed
from cortex_plane.core.outcomes import Done
from cortex_plane.core.states import JobStatus, RunStatus
from cortex_plane.operations.repair_jobs import repair_jobs
from tests.contract.support import Raw, RawPostgres, RawSqlite, Scene

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def triggers_off(raw: Raw) -> AsyncIterator[None]:
    if isinstance(raw, RawPostgres):
        await raw("set session_replication_role = replica")
        yield
        await raw("set session_replication_role = default")
    else:
        assert isinstance(raw, RawSqlite)
        raw.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        yield
        raw.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


async def without_run(scene: Scene, raw: Raw) -> Claimed:
    claimed = await scene.running()
    async with triggers_off(raw):
        await raw(f"delete from cortex.job_run where job_id = '{claimed.job_id}'")
    return claimed


async def with_closed_run(scene: Scene, raw: Raw, status: RunStatus) -> Claimed:
    claimed = await scene.running()
    async with triggers_off(raw):
        await raw(
            f"update cortex.job_run set status = '{status}', finished_at = {raw.now}, error = 'it broke' "
            f"where job_id = '{claimed.job_id}'"
        )
    return claimed


async def repair(scene: Scene) -> int:
    return await repair_jobs(scene.store, new_id, lambda: 0.5)


async def test_healthy_jobs_are_left_alone(scene: Scene, raw: Raw) -> None:
    jobs = [await scene.in_state(status, raw) for status in reversed(JobStatus)]
    before = [await scene.job(job_id) for job_id in jobs]

    assert await scene.store.queue.broken_jobs(100) == []
    assert await repair(scene) == 0
    assert [await scene.job(job_id) for job_id in jobs] == before


async def test_a_running_job_without_a_run_gets_a_failed_one_and_goes_on(scene: Scene, raw: Raw) -> None:
    claimed = await without_run(scene, raw)
    [broken] = await scene.store.queue.broken_jobs(100)
    assert (broken.lost.claimed.job_id, broken.run_status) == (claimed.job_id, None)

    assert await repair(scene) == 1
    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert (run.id, run.status) == (claimed.run_id, RunStatus.FAILED)
    assert await scene.status(claimed.job_id) is JobStatus.RETRY
    assert not await scene.finish(claimed, Done("1")), "the fence holds"
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [claimed.job_id]


@pytest.mark.parametrize(
    ("run_status", "status"),
    [
        (RunStatus.COMPLETED, JobStatus.COMPLETED),
        (RunStatus.FAILED, JobStatus.FAILED),
        (RunStatus.CANCELLED, JobStatus.CANCELLED),
        (RunStatus.SKIPPED, JobStatus.CANCELLED),
        (RunStatus.INTERRUPTED, JobStatus.RETRY),
        (RunStatus.SLEEPING, JobStatus.RETRY),
    ],
)
async def test_a_running_job_whose_run_is_closed_takes_its_outcome(
    scene: Scene, raw: Raw, run_status: RunStatus, status: JobStatus
) -> None:
    claimed = await with_closed_run(scene, raw, run_status)
    [broken] = await scene.store.queue.broken_jobs(100)
    assert (broken.run_status, broken.run_error) == (run_status, "it broke")

    assert await repair(scene) == 1
    job = await scene.job(claimed.job_id)
    assert job.status is status
    assert job.error_message == ("it broke" if status is JobStatus.FAILED else None)
    last = (await scene.store.jobs.history(claimed.job_id))[-1]
    assert (last.cause, last.actor) == ("repair", "repair")
    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert run.status is run_status, "a closed run never changes"


async def test_many_broken_jobs_are_repaired_in_one_go(scene: Scene, raw: Raw) -> None:
    for _ in range(250):
        await scene.submit()
    await scene.claim(await scene.worker(), 250)
    async with triggers_off(raw):
        await raw("delete from cortex.job_run")

    assert await repair(scene) == 250
    assert await scene.store.queue.broken_jobs(1) == []
