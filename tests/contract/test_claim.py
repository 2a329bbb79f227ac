"""Claiming: the best ready jobs, in one total order, for a worker that lives."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from cortex_plane.errors import Conflict
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, Claimed, JobId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Done, after_crash
from cortex_plane.jobs.states import JobStatus, RunStatus
from tests.contract.support import Raw, Scene, run_ids
from tests.contract.test_repair import triggers_off

pytestmark = pytest.mark.anyio


def ids(claimed: Sequence[Claimed]) -> list[JobId]:
    return [one.job_id for one in claimed]


async def test_a_claim_makes_the_job_run_with_an_open_run_and_takes_it_off_the_queue(scene: Scene) -> None:
    job_id = await scene.submit(payload='{"a":1}')
    worker = await scene.worker()
    await scene.clock.advance(seconds=3)
    [claimed] = await scene.claim(worker)

    job = await scene.job(job_id)
    assert (job.status, job.run_id, job.worker_id) == (JobStatus.RUNNING, claimed.run_id, worker)
    assert (job.attempt, job.started_at, job.updated_at, job.worker_job_id) == (1, scene.now, scene.now, None)
    [run] = await scene.store.jobs.runs(job_id)
    assert (run.id, run.status, run.worker_id, run.attempt) == (claimed.run_id, RunStatus.RUNNING, worker, 1)
    assert (run.started_at, run.finished_at, run.params_snapshot) == (scene.now, None, {"a": 1})
    assert await scene.store.queue.depths() == {}
    assert claimed == Claimed(job_id, claimed.run_id, "echo", "default", DEFAULT_TENANT_ID, {"a": 1}, 1, 0, 3, 0)


async def test_the_order_is_priority_then_position_then_age_then_id(scene: Scene, raw: Raw) -> None:
    """Positions and ages are made equal by hand, so that each rule has something to decide."""
    jobs = [await scene.submit(priority=priority) for priority in (0, 5, -5, 5, 0, 0, 0)]
    places = {jobs[0]: (200, 0), jobs[1]: (900, 0), jobs[3]: (100, 0), jobs[4]: (100, 7), jobs[5]: (100, 5), jobs[6]: (100, 5)}
    for job_id, (position, age) in places.items():
        created = f"created_at + {age}" if raw.kind == "sqlite" else f"created_at + {age} * interval '1 microsecond'"
        for table, key in (("job", "id"), ("queue_entry", "job_id")):
            async with triggers_off(raw):
                await raw(f"update cortex.{table} set position = {position}, created_at = {created} where {key} = '{job_id}'")

    claimed = await scene.claim(await scene.worker())
    assert ids(claimed) == [jobs[3], jobs[1], *sorted([jobs[5], jobs[6]]), jobs[4], jobs[0], jobs[2]]


async def test_many_small_claims_give_the_same_order_as_one_large(scene: Scene) -> None:
    chance = random.Random(7)
    submitted = [(-chance.randrange(3), index) for index in range(60)]
    jobs = [await scene.submit(priority=-rank) for rank, _ in submitted]
    worker = await scene.worker()

    claimed = [one for size in (1, 2, 7, 20, 1, 29) for one in ids(await scene.claim(worker, size))]
    assert claimed == [jobs[index] for _, index in sorted(submitted)]


async def test_several_queues_and_agents_are_merged_into_one_order(scene: Scene) -> None:
    wanted = []
    for place in range(12):
        queue, job_type = ("red", "blue", "other")[place % 3], ("echo", "mail", "echo", "other")[place % 4]
        job_id = await scene.submit(job_type, queue=queue, priority=place % 2)
        if queue != "other" and job_type != "other":
            wanted.append((-(place % 2), place, job_id))

    claimed = await scene.claim(await scene.worker(), 20, ["blue", "red"], ["mail", "echo"])
    assert ids(claimed) == [job_id for _, _, job_id in sorted(wanted)]
    assert {one.queue for one in claimed} == {"red", "blue"}


async def test_a_claim_takes_at_most_one_job_for_each_run_id(scene: Scene) -> None:
    for _ in range(5):
        await scene.submit()
    worker = await scene.worker()

    assert len(await scene.claim(worker, 3)) == 3
    assert len(await scene.claim(worker, 3)) == 2
    assert await scene.claim(worker, 3) == []
    assert await scene.store.queue.claim(worker, ["default"], ["echo"], []) == []


async def test_run_ids_are_given_out_in_queue_order(scene: Scene) -> None:
    jobs = [await scene.submit(priority=priority) for priority in (0, 9, 5)]
    wanted = run_ids(3)
    claimed = await scene.store.queue.claim(await scene.worker(), ["default"], ["echo"], wanted)

    assert [one.run_id for one in claimed] == wanted
    assert ids(claimed) == [jobs[1], jobs[2], jobs[0]]


async def test_a_queue_or_agent_that_is_named_twice_is_claimed_from_once(scene: Scene, raw: Raw) -> None:
    jobs = [await scene.submit(), await scene.submit()]
    wanted = run_ids(3)
    claimed = await scene.store.queue.claim(await scene.worker(), ["default", "default"], ["echo", "echo"], wanted)

    assert ids(claimed) == jobs
    assert [one.run_id for one in claimed] == wanted[:2]


@pytest.mark.parametrize("end", ["unknown", "lost", "stopped"])
async def test_only_a_live_worker_claims(scene: Scene, end: str) -> None:
    job_id = await scene.submit()
    worker = await scene.worker() if end != "unknown" else WorkerId(new_id())
    if end == "lost":
        assert await scene.store.workers.give_up(worker)
    if end == "stopped":
        assert await scene.store.workers.leave(worker)

    assert await scene.claim(worker) == []
    assert await scene.status(job_id) is JobStatus.PENDING
    assert ids(await scene.claim(await scene.worker())) == [job_id]


async def test_a_worker_whose_lease_has_run_out_claims_until_somebody_declares_it_lost(scene: Scene) -> None:
    """Its own trust ends earlier; the database decides by status alone, so that there is one truth."""
    await scene.submit()
    worker = await scene.worker(lease_seconds=1)
    await scene.clock.advance(minutes=1)

    assert len(await scene.claim(worker)) == 1


async def crashed(scene: Scene, count: int) -> list[JobId]:
    """Jobs of one batch whose worker vanished."""
    jobs = [await scene.submit() for _ in range(count)]
    worker = await scene.worker()
    await scene.claim(worker)
    await scene.store.workers.give_up(worker)
    lost = await scene.store.workers.lost_runs(100)
    await scene.store.queue.finish([after_crash(one, Chance(0.5, JobId(new_id()))) for one in lost], "rescuer")
    return jobs


async def test_jobs_whose_worker_vanished_are_claimed_with_all_others_in_their_old_places(scene: Scene) -> None:
    jobs = await crashed(scene, 3)
    fresh = [await scene.submit() for _ in range(2)]

    assert ids(await scene.claim(await scene.worker())) == [*jobs, *fresh]


async def test_a_worker_can_ask_which_of_its_claims_took_effect(scene: Scene) -> None:
    jobs = [await scene.submit() for _ in range(2)]
    worker, other = await scene.worker(), await scene.worker()
    wanted = run_ids(4)
    claimed = await scene.store.queue.claim(worker, ["default"], ["echo"], wanted)
    await scene.finish(claimed[1], Done("1"))

    [open_run] = await scene.store.queue.open_runs(worker, wanted)
    assert open_run == claimed[0]
    assert open_run.job_id == jobs[0]
    assert await scene.store.queue.open_runs(other, wanted) == []


async def test_a_job_that_cannot_be_started_is_set_aside_and_stops_no_other(scene: Scene, raw: Raw) -> None:
    bad, *good = [await scene.submit() for _ in range(4)]
    async with triggers_off(raw):
        await raw(
            "insert into cortex.job_history (job_id, revision, new_status, cause, created_at) "
            f"values ('{bad}', 2, 'RUNNING', 'forged', {raw.now})"
        )
    worker = await scene.worker()
    with pytest.raises(Conflict):
        await scene.claim(worker, 10)

    assert await scene.store.queue.set_aside_unstartable(worker, ["default"], ["echo"], 10) == [bad]
    assert [one.job_id for one in await scene.claim(worker, 10)] == good
    assert await scene.status(bad) is JobStatus.PENDING
    await scene.clock.advance(seconds=61)
    assert await scene.store.queue.promote_due(10) == 1
