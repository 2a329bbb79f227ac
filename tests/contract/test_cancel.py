"""Cancelling: from every state that can still end, exactly once."""

from __future__ import annotations

import pytest

from cortex_plane.errors import AlreadyFinished, Denied, JobNotFound
from cortex_plane.ids import new_id
from cortex_plane.jobs.changes import cancel_job
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import TERMINAL, JobStatus, RunStatus
from tests.contract.group_scene import GroupScene
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio

LIVE = [status for status in JobStatus if status not in TERMINAL]


@pytest.mark.parametrize("status", LIVE)
async def test_a_job_that_has_not_ended_is_cancelled_at_once(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id = await scene.in_state(status, raw)
    await scene.clock.advance(seconds=5)
    assert await scene.store.jobs.cancel(job_id, "ada", "not needed any more")

    job = await scene.job(job_id)
    assert (job.status, job.finished_at, job.updated_at) == (JobStatus.CANCELLED, scene.now, scene.now)
    assert (job.run_id, job.worker_id, job.next_retry_at, job.wait_reason, job.worker_job_id) == (None,) * 5
    assert await scene.store.queue.depths() == {}
    last = (await scene.store.jobs.history(job_id))[-1]
    assert (last.previous_status, last.new_status, last.cause, last.actor) == (status, JobStatus.CANCELLED, "cancel", "ada")
    assert last.metadata == {"reason": "not needed any more"}


@pytest.mark.parametrize("status", sorted(TERMINAL))
async def test_a_job_that_has_ended_stays_as_it_is(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id = await scene.in_state(status, raw)
    before = await scene.job(job_id), await scene.store.jobs.history(job_id)

    assert not await scene.store.jobs.cancel(job_id, "ada", None)
    assert (await scene.job(job_id), await scene.store.jobs.history(job_id)) == before


async def test_a_job_that_never_was_is_not_cancelled(scene: Scene) -> None:
    assert not await scene.store.jobs.cancel(JobId(new_id()), None, None)


async def test_cancelling_a_running_job_closes_its_run(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.cancel(claimed.job_id, None, None)

    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert (run.status, run.finished_at) == (RunStatus.CANCELLED, scene.now)
    assert await scene.store.queue.closed_runs([(claimed.job_id, claimed.run_id)]) == {claimed.run_id: "cancel"}


async def test_a_cancelled_job_is_never_claimed(scene: Scene) -> None:
    job_id = await scene.submit()
    later = await scene.submit(delay_seconds=1)
    await scene.store.jobs.cancel(job_id, None, None)
    await scene.store.jobs.cancel(later, None, None)
    await scene.clock.advance(minutes=1)

    assert await scene.store.queue.promote_due(10) == 0
    assert await scene.claim(await scene.worker()) == []


async def test_cancelling_the_head_of_a_serial_key_lets_the_next_go(scene: Scene) -> None:
    first, second, third = [await scene.submit(serial_key="k") for _ in range(3)]
    worker = await scene.worker()

    await scene.store.jobs.cancel(first, None, None)
    [claimed] = await scene.claim(worker)
    assert claimed.job_id == second
    await scene.store.jobs.cancel(third, None, None)
    await scene.finish(claimed, Done("1"))
    assert await scene.store.queue.depths() == {}


async def test_no_token_survives_a_cancellation(scene: Scene, raw: Raw) -> None:
    job_id = await scene.in_state(JobStatus.WAITING_FOR_APPROVAL, raw)
    await scene.store.jobs.cancel(job_id, None, None)

    assert await raw(f"select approval_token, approval_expires_at from cortex.job where id = '{job_id}'") == [(None, None)]


async def test_what_belongs_to_the_plane_itself_is_not_cancelled_by_people(scene: Scene) -> None:
    groups = GroupScene(scene)
    group_id, _ = await groups.add(1)
    [member] = await groups.start()
    await scene.finish(member, Done("1"))
    [look] = await scene.store.jobs.list(queue=INTERNAL_QUEUE)

    with pytest.raises(Denied, match=rf"Job {look.id} \(cortex.group\) belongs to the plane itself"):
        await cancel_job(scene.store, look.id, actor="ada")

    assert await scene.status(look.id) is JobStatus.PENDING
    await groups.move_on()
    assert (await groups.group(group_id)).is_finished


async def test_a_job_of_anybody_else_is_cancelled_once(scene: Scene) -> None:
    job_id = await scene.submit()
    await cancel_job(scene.store, job_id, actor="ada")

    with pytest.raises(AlreadyFinished):
        await cancel_job(scene.store, job_id)
    with pytest.raises(JobNotFound):
        await cancel_job(scene.store, JobId(new_id()))
