"""Deadlines: a job that has not ended by then is ended, wherever it stands, by the database's clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cortex_plane.clock import instant
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import TERMINAL, JobStatus, RunStatus
from tests.contract.support import BOOM, Raw, Scene

pytestmark = pytest.mark.anyio

LIVE = [status for status in JobStatus if status not in TERMINAL]


async def in_state(scene: Scene, raw: Raw, status: JobStatus, seconds: float = 60) -> JobId:
    job_id = await scene.in_state(status, raw)
    at = instant(scene.now + timedelta(seconds=seconds))
    await raw(
        f"update cortex.job set deadline_at = {at if raw.kind == 'sqlite' else f'cortex.instant({at})'} where id = '{job_id}'"
    )
    return job_id


@pytest.mark.parametrize("status", LIVE)
async def test_a_job_past_its_deadline_is_ended_in_every_live_state(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id = await in_state(scene, raw, status)
    await scene.clock.advance(seconds=61)
    ended = await scene.store.jobs.end_overdue(10)

    job = await scene.job(job_id)
    last = (await scene.store.jobs.history(job_id))[-1]
    wanted = JobStatus.CANCELLED if status is JobStatus.PENDING else JobStatus.FAILED
    assert (ended, job.status, job.finished_at) == (1, wanted, scene.now)
    assert (last.previous_status, last.cause) == (status, "deadline_exceeded")
    assert (job.run_id, job.worker_id, job.next_retry_at, job.wait_reason, job.worker_job_id) == (None,) * 5
    if status is not JobStatus.PENDING:
        assert job.error["type"] == "DeadlineExceeded"
    assert await scene.store.queue.depths() == {}
    assert await scene.store.jobs.next_deadline_in() is None


@pytest.mark.parametrize("status", LIVE)
async def test_nothing_is_ended_before_its_deadline(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id = await in_state(scene, raw, status)
    await scene.clock.advance(seconds=59)

    assert await scene.store.jobs.end_overdue(10) == 0
    assert (await scene.job(job_id)).status is status
    assert await scene.store.jobs.next_deadline_in() == pytest.approx(1.0)


async def test_the_run_of_a_job_past_its_deadline_is_closed_and_its_late_result_dropped(scene: Scene) -> None:
    claimed = await scene.running(deadline_seconds=60)
    await scene.clock.advance(seconds=61)
    await scene.store.jobs.end_overdue(10)

    assert not await scene.finish(claimed, Done('"late"'))
    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert (run.status, run.finished_at) == (RunStatus.FAILED, scene.now)
    assert await scene.store.queue.closed_runs([(claimed.job_id, claimed.run_id)]) == {claimed.run_id: "deadline_exceeded"}


async def test_a_claim_says_how_long_a_job_has_left(scene: Scene) -> None:
    await scene.submit(deadline_seconds=60)
    await scene.clock.advance(seconds=20)
    [claimed] = await scene.claim(await scene.worker(), 1)

    assert claimed.seconds_left == pytest.approx(40.0)


async def test_a_claim_leaves_a_job_that_is_past_its_deadline(scene: Scene) -> None:
    late, fine = await scene.submit(deadline_seconds=60, priority=1), await scene.submit()
    await scene.clock.advance(seconds=61)
    claimed = await scene.claim(await scene.worker(), 2)

    assert [one.job_id for one in claimed] == [fine]
    assert (await scene.job(late)).status is JobStatus.PENDING
    assert await scene.store.jobs.end_overdue(10) == 1
    assert (await scene.job(late)).status is JobStatus.CANCELLED


async def test_a_job_that_has_ended_has_no_deadline_to_watch(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running(deadline_seconds=60)
    await scene.finish(claimed, Done())

    assert await raw("select count(*) from cortex.job_deadline") == [(0,)]


async def test_a_deadline_counts_from_the_submission(scene: Scene) -> None:
    submitted = scene.now
    job_id = await scene.submit(deadline_seconds=90, delay_seconds=30)

    assert (await scene.job(job_id)).deadline_at == submitted + timedelta(seconds=90)


async def test_a_time_is_taken_as_it_is(scene: Scene) -> None:
    at = scene.now + timedelta(hours=2, microseconds=7)
    job_id = await scene.submit(deadline_at=instant(at))

    assert (await scene.job(job_id)).deadline_at == at


@pytest.mark.parametrize(("asked", "becomes"), [(None, 60), (10.0, 10), (600.0, 60)])
async def test_a_child_never_has_a_later_deadline_than_its_parent(scene: Scene, asked: float | None, becomes: float) -> None:
    began = scene.now
    parent = await scene.submit(deadline_seconds=60)
    child = await scene.submit(parent_id=parent, deadline_seconds=asked)

    assert (await scene.job(child)).deadline_at == began + timedelta(seconds=becomes)


async def test_a_parent_without_a_deadline_leaves_its_child_alone(scene: Scene) -> None:
    child = await scene.submit(parent_id=await scene.submit())

    assert (await scene.job(child)).deadline_at is None


async def test_an_operators_retry_counts_a_length_anew(scene: Scene) -> None:
    job_id, again = await scene.submit(deadline_seconds=60), JobId("01990000-0000-7000-8000-000000000001")
    await scene.clock.advance(seconds=61)
    await scene.store.jobs.end_overdue(10)
    await scene.store.jobs.retry(job_id, again, "ada")

    assert (await scene.job(again)).deadline_at == scene.now + timedelta(seconds=60)


async def test_an_operators_retry_keeps_a_time_that_is_still_to_come_and_no_other(scene: Scene) -> None:
    at = scene.now + timedelta(seconds=60)
    early, late = await scene.submit(deadline_at=instant(at)), await scene.submit(deadline_at=instant(at))
    first, second = JobId("01990000-0000-7000-8000-000000000001"), JobId("01990000-0000-7000-8000-000000000002")
    await scene.store.jobs.cancel(early, None, None)
    await scene.store.jobs.retry(early, first, "ada")
    await scene.clock.advance(seconds=61)
    await scene.store.jobs.end_overdue(10)
    await scene.store.jobs.retry(late, second, "ada")

    assert [(await scene.job(first)).deadline_at, (await scene.job(second)).deadline_at] == [at, None]


async def test_a_retry_that_would_come_too_late_does_not(scene: Scene) -> None:
    claimed = await scene.running(deadline_seconds=0.5)
    await scene.finish(claimed, BOOM)
    await scene.clock.advance(seconds=1)
    await scene.store.jobs.end_overdue(10)

    job = await scene.job(claimed.job_id)
    assert (job.status, job.error["type"]) == (JobStatus.FAILED, "DeadlineExceeded")


async def test_a_batch_is_no_larger_than_asked(scene: Scene) -> None:
    for _ in range(5):
        await scene.submit(deadline_seconds=1)
    await scene.clock.advance(seconds=2)

    assert [await scene.store.jobs.end_overdue(2) for _ in range(4)] == [2, 2, 1, 0]
