"""Rows that the triggers make impossible, as a damaged or restored database may hold them: the recovery matrix."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import apsw
import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import BrokenJob, Done
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.storage.rows import NEWER_THAN_ALL
from cortex_plane.worker import rescue as repairing
from cortex_plane.worker.rescue import BEFORE_ALL, repair_jobs, repair_some
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


async def without_run(scene: Scene, raw: Raw, queue: str = "default") -> Claimed:
    claimed = await scene.running(queue=queue)
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


async def broken_jobs(scene: Scene) -> list[BrokenJob]:
    return await scene.store.queue.broken_jobs(BEFORE_ALL, JobId(NEWER_THAN_ALL), 100)


async def repair(scene: Scene) -> int:
    return await repair_jobs(scene.store, new_id, lambda: 0.5)


async def test_healthy_jobs_are_left_alone(scene: Scene, raw: Raw) -> None:
    jobs = [await scene.in_state(status, raw) for status in reversed(JobStatus)]
    before = [await scene.job(job_id) for job_id in jobs]

    assert await broken_jobs(scene) == []
    assert await repair(scene) == 0
    assert [await scene.job(job_id) for job_id in jobs] == before


async def test_a_running_job_without_a_run_gets_a_failed_one_and_goes_on(scene: Scene, raw: Raw) -> None:
    claimed = await without_run(scene, raw)
    [broken] = await broken_jobs(scene)
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
    [broken] = await broken_jobs(scene)
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
    assert await broken_jobs(scene) == []


async def made_running_by_hand(scene: Scene, raw: Raw, worker: str | None) -> JobId:
    job = await scene.submit()
    await scene.clock.advance(seconds=1)
    owner = "null" if worker is None else f"'{worker}'"
    await raw(
        f"update cortex.job set status = 'RUNNING', run_id = '{new_id()}', worker_id = {owner}, updated_at = {raw.now} "
        f"where id = '{job}'"
    )
    return job


@pytest.mark.parametrize("owner", ["nobody", "unknown", "stopped"])
async def test_a_job_that_raw_sql_made_running_goes_on(scene: Scene, raw: Raw, owner: str) -> None:
    worker = await scene.worker()
    assert await scene.store.workers.leave(worker)
    job = await made_running_by_hand(scene, raw, {"nobody": None, "unknown": new_id(), "stopped": worker}[owner])
    assert await scene.claim(await scene.worker()) == []

    assert await repair(scene) == 1
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [job]
    assert (await scene.job(job)).retry_count == 0


async def test_a_look_mends_stranded_runs_and_one_page_of_jobs(scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "PAGE", 3)
    damaged = [await without_run(scene, raw) for _ in range(4)]
    stranded = await made_running_by_hand(scene, raw, None)

    async def look() -> None:
        await scene.clock.advance(seconds=60)
        await repair_some(scene.store, new_id, lambda: 0.5, 50)

    await look()
    assert await scene.status(stranded) is JobStatus.RETRY
    assert [await scene.status(one.job_id) for one in damaged] == [*[JobStatus.RETRY] * 3, JobStatus.RUNNING]
    await repair_some(scene.store, new_id, lambda: 0.5, 50)
    assert await scene.status(damaged[3].job_id) is JobStatus.RUNNING, "somebody looked a moment ago"
    await look()
    assert await scene.status(damaged[3].job_id) is JobStatus.RETRY
    late = await without_run(scene, raw, "late")
    await look()
    await look()
    await look()
    assert await scene.status(late.job_id) is JobStatus.RETRY, "it begins anew after the last page"


async def test_a_job_that_waits_to_be_taken_over_is_not_stranded(scene: Scene, raw: Raw) -> None:
    worker = await scene.worker()
    await scene.submit()
    await scene.claim(worker, 1)
    await scene.in_state(JobStatus.RUNNING, raw)

    assert await scene.store.queue.stranded_runs(10) == []
