"""History: one line for each transition, with cause, actor and run, and never a token."""

from __future__ import annotations

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done, HandedBack, Interrupted
from cortex_plane.jobs.states import TRANSITIONS, JobStatus
from cortex_plane.worker.model import actor_of
from tests.contract.support import BOOM, FATAL, Raw, Scene, into

pytestmark = pytest.mark.anyio


async def test_the_life_of_a_job_is_told_in_order(scene: Scene) -> None:
    job_id = await scene.submit(created_by="ada")
    worker = await scene.worker()
    runs = []
    for outcome in (Interrupted(), BOOM, HandedBack(), Done("1")):
        await scene.clock.advance(minutes=1)
        await scene.store.queue.promote_due(10)
        [claimed] = await scene.claim(worker)
        runs.append(claimed.run_id)
        await scene.finish(claimed, outcome, by=actor_of(worker))

    told = [
        (e.revision, e.previous_status, e.new_status, e.cause, e.actor, e.run_id) for e in await scene.store.jobs.history(job_id)
    ]
    me = actor_of(worker)
    assert told == [
        (1, None, "PENDING", "submit", "ada", None),
        (2, "PENDING", "RUNNING", "claim", me, runs[0]),
        (3, "RUNNING", "RETRY", "interrupt", me, runs[0]),
        (4, "RETRY", "RUNNING", "claim", me, runs[1]),
        (5, "RUNNING", "RETRY", "fail", me, runs[1]),
        (6, "RETRY", "RUNNING", "claim", me, runs[2]),
        (7, "RUNNING", "RETRY", "hand_back", me, runs[2]),
        (8, "RETRY", "RUNNING", "claim", me, runs[3]),
        (9, "RUNNING", "COMPLETED", "complete", me, runs[3]),
    ]
    assert (await scene.job(job_id)).revision == 9


async def test_each_line_has_the_time_of_its_transition(scene: Scene) -> None:
    job_id = await scene.submit()
    times = [scene.now]
    await scene.clock.advance(seconds=3)
    [claimed] = await scene.claim(await scene.worker())
    times.append(scene.now)
    await scene.clock.advance(seconds=4)
    await scene.finish(claimed, Done("1"))
    times.append(scene.now)

    assert [entry.created_at for entry in await scene.store.jobs.history(job_id)] == times


async def test_a_failure_says_why(scene: Scene) -> None:
    claimed = await scene.running(max_retries=0)
    await scene.finish(claimed, BOOM)

    last = (await scene.store.jobs.history(claimed.job_id))[-1]
    assert last.metadata == {"error_message": "boom", "exhausted": True}


async def test_a_retry_says_when_and_why_in_the_same_words_on_every_store(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, BOOM)

    job = await scene.job(claimed.job_id)
    assert job.next_retry_at is not None
    last = (await scene.store.jobs.history(claimed.job_id))[-1]
    assert last.metadata == {"retry_count": 1, "wait_reason": "retry", "next_retry_at": job.next_retry_at.isoformat()}


async def test_a_plain_transition_has_no_metadata(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Done("1"))

    assert [entry.metadata for entry in await scene.store.jobs.history(claimed.job_id)] == [None, None, None]


async def test_a_job_that_never_was_has_no_history(scene: Scene) -> None:
    assert await scene.store.jobs.history(JobId(new_id())) == []
    assert await scene.store.jobs.runs(JobId(new_id())) == []
    assert await scene.store.jobs.status(JobId(new_id())) is None


@pytest.mark.parametrize("after", TRANSITIONS[JobStatus.WAITING_FOR_APPROVAL])
async def test_no_token_is_ever_in_a_line(scene: Scene, raw: Raw, after: JobStatus) -> None:
    job_id = await scene.in_state(JobStatus.WAITING_FOR_APPROVAL, raw)
    await raw(f"update cortex.job set {into(after, raw)} where id = '{job_id}'")

    lines = await raw(f"select * from cortex.job_history where job_id = '{job_id}'")
    assert len(lines) == 4
    assert "digest" not in str(lines)


async def test_a_change_that_is_no_transition_writes_no_line(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()
    await raw(f"update cortex.job set priority = 5, updated_at = {raw.now} where id = '{job_id}'")
    await raw(f"update cortex.job set status = 'PENDING' where id = '{job_id}'")

    assert len(await scene.store.jobs.history(job_id)) == 1


async def test_a_refused_write_leaves_no_line(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.cancel(claimed.job_id, None, None)
    before = await scene.store.jobs.history(claimed.job_id)
    await scene.finish(claimed, FATAL)

    assert await scene.store.jobs.history(claimed.job_id) == before
