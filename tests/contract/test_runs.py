"""Runs, as somebody finds them who does not know their job."""

from __future__ import annotations

import pytest

from cortex_plane.errors import AmbiguousRun, AmbiguousWorker, InvalidInput, RunNotFound, WorkerNotFound
from cortex_plane.jobs import runs
from cortex_plane.jobs.model import RunPage
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.runs import find_run, list_runs
from cortex_plane.jobs.states import RunStatus
from cortex_plane.worker.service import find_worker
from tests.contract.support import BOOM, FATAL, Scene

pytestmark = pytest.mark.anyio

UNKNOWN = "01234567-0000-7000-8000-000000000000"


async def test_runs_of_the_newest_jobs_come_first(scene: Scene) -> None:
    claimed = [await scene.running() for _ in range(3)]
    await scene.finish(claimed[0], Done("1"))
    await scene.finish(claimed[1], FATAL)

    found = await list_runs(scene.store)

    assert [run.id for run in found] == [one.run_id for one in reversed(claimed)]
    assert [run.status for run in found] == ["RUNNING", "FAILED", "COMPLETED"]
    assert [run.id for run in await list_runs(scene.store, limit=1)] == [claimed[2].run_id]


async def test_runs_are_narrowed_by_status_worker_and_job(scene: Scene) -> None:
    first, second = await scene.running(), await scene.running()
    await scene.finish(first, BOOM)
    worker = await find_worker(scene.store, (await list_runs(scene.store, status="running"))[0].worker_id or "")

    assert [run.id for run in await list_runs(scene.store, status="failed")] == [first.run_id]
    assert [run.id for run in await list_runs(scene.store, status=RunStatus.RUNNING)] == [second.run_id]
    assert [run.id for run in await list_runs(scene.store, worker=worker.id)] == [second.run_id]
    assert [run.id for run in await list_runs(scene.store, worker=worker.id, status="failed")] == []
    assert [run.id for run in await list_runs(scene.store, job=first.job_id)] == [first.run_id]
    assert [run.id for run in await list_runs(scene.store, job=first.job_id, status="running")] == []


async def test_the_attempts_of_a_job_are_listed_from_the_last(scene: Scene) -> None:
    first = await scene.running()
    await scene.finish(first, BOOM)
    await scene.clock.advance(minutes=10)
    await scene.store.queue.promote_due(10)
    [second] = await scene.claim(await scene.worker())

    assert [(run.id, run.attempt) for run in await list_runs(scene.store, job=first.job_id)] == [
        (second.run_id, 2),
        (first.run_id, 1),
    ]


async def test_a_run_is_found_by_the_first_part_of_its_id(scene: Scene) -> None:
    open_one, ended = await scene.running(), await scene.running()
    await scene.finish(ended, Done("1"))

    assert (await find_run(scene.store, open_one.run_id)).status == "RUNNING"
    assert (await find_run(scene.store, ended.run_id[:30])).id == ended.run_id
    assert (await find_run(scene.store, ended.run_id[:8], job=ended.job_id)).id == ended.run_id


async def test_what_is_no_run_or_fits_several_is_said(scene: Scene) -> None:
    one, other = await scene.running(), await scene.running()

    with pytest.raises(RunNotFound, match="among the newest 10,000"):
        await find_run(scene.store, UNKNOWN)
    with pytest.raises(RunNotFound, match="of this job"):
        await find_run(scene.store, other.run_id, job=one.job_id)
    with pytest.raises(AmbiguousRun, match="Give more characters of the id"):
        await find_run(scene.store, one.run_id[:4])
    with pytest.raises(InvalidInput, match="is not the id of a run"):
        await find_run(scene.store, "latest")
    with pytest.raises(InvalidInput, match="Did you mean"):
        await list_runs(scene.store, status="runing")


async def test_a_worker_is_found_by_its_name_or_the_first_part_of_its_id(scene: Scene) -> None:
    earlier, later = await scene.worker("host:1"), await scene.worker("host:2")

    assert (await find_worker(scene.store, "host:2")).id == later
    assert (await find_worker(scene.store, earlier)).id == earlier
    with pytest.raises(AmbiguousWorker):
        await find_worker(scene.store, earlier[:4])
    with pytest.raises(WorkerNotFound, match="cortex workers list"):
        await find_worker(scene.store, "host:3")


async def test_of_two_workers_of_one_name_the_one_that_lives_is_meant(scene: Scene) -> None:
    gone = await scene.worker("host:1")
    await scene.store.workers.give_up(gone)
    here = await scene.worker("host:1")
    await scene.store.workers.give_up(await scene.worker("host:1"))

    assert (await find_worker(scene.store, "host:1")).id == here


async def test_a_page_of_runs_that_are_rare_may_be_short_and_still_have_a_next_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BATCH", 2)
    monkeypatch.setattr(runs, "LOOKED_AT", 4)
    rare = await scene.running()
    await scene.finish(rare, FATAL)
    for _ in range(5):
        await scene.finish(await scene.running(), Done("1"))

    first = await scene.store.runs.page(status=RunStatus.FAILED, limit=1)
    second = await scene.store.runs.page(status=RunStatus.FAILED, before=first.next_before, limit=1)

    assert (first.runs, first.next_before is None) == ([], False)
    assert [run.id for run in second.runs] == [rare.run_id]
    assert await scene.store.runs.page(status=RunStatus.FAILED, before=second.next_before, limit=1) == RunPage([], None)


async def test_runs_that_have_not_ended_come_page_by_page(scene: Scene) -> None:
    claimed = [await scene.running() for _ in range(3)]

    first = await scene.store.runs.page(status=RunStatus.RUNNING, limit=2)
    second = await scene.store.runs.page(status=RunStatus.RUNNING, before=first.next_before, limit=2)

    assert [run.id for run in (*first.runs, *second.runs)] == [one.run_id for one in reversed(claimed)]
    assert second.next_before is None
