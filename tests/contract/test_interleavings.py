"""Who wins when two transactions meet: each order is forced with explicit transactions on real connections."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Chance, Done, Interrupted, after_crash
from cortex_plane.jobs.states import JobStatus
from tests.contract.sessions import Four, batch
from tests.contract.support import BOOM, Raw, Scene, ended, snapshot

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


def ids(claimed: list[Claimed]) -> list[JobId]:
    return [one.job_id for one in claimed]


# -- a guard reads only the row that it changes --------------------------------------------------


async def test_a_zombies_batch_that_waited_for_a_lock_does_not_overwrite_the_new_run(scene: Scene, four: Four) -> None:
    rescuer, zombie, *_ = four
    dead, claimed = await batch(scene, 3)
    await scene.store.workers.give_up(dead)
    lost = next(run for run in await scene.store.workers.lost_runs(10) if run.claimed == claimed[1])
    fresh = await scene.worker()

    await rescuer.begin()
    assert await rescuer.finish(after_crash(lost, Chance(0.5, JobId(new_id()))))
    [again] = await rescuer.claim(fresh)
    late = asyncio.create_task(zombie.finish(*(ended(one, Done('"zombie"')) for one in claimed)))
    await zombie.waits(late)
    await rescuer.commit()

    assert await late == {claimed[0].run_id, claimed[2].run_id}
    job = await scene.job(claimed[1].job_id)
    assert (job.status, job.run_id, job.worker_id, job.output) == (JobStatus.RUNNING, again.run_id, fresh, None)
    assert [run.status for run in await scene.store.jobs.runs(job.id)] == ["FAILED", "RUNNING"]
    assert await scene.finish(again, Done('"fresh"'))


async def test_a_zombies_checkpoint_that_waited_for_a_lock_is_not_saved(scene: Scene, four: Four) -> None:
    rescuer, zombie, *_ = four
    _, [claimed] = await batch(scene, 1)
    await rescuer.begin()
    await rescuer.finish(ended(claimed, Interrupted()))
    await rescuer.claim(await scene.worker())
    late = asyncio.create_task(zombie.save(snapshot(claimed, '{"step":9}')))
    await zombie.waits(late)
    await rescuer.commit()

    assert await late == set()


async def test_two_finishes_of_one_run_apply_once(scene: Scene, four: Four) -> None:
    first, second, *_ = four
    _, [claimed] = await batch(scene, 1)
    await first.begin()
    assert await first.finish(ended(claimed, Done("1")))
    late = asyncio.create_task(second.finish(ended(claimed, BOOM)))
    await second.waits(late)
    await first.commit()

    assert await late == set()
    assert await scene.status(claimed.job_id) is JobStatus.COMPLETED
    assert len(await scene.store.jobs.history(claimed.job_id)) == 3


async def test_a_finish_that_was_rolled_back_leaves_the_run_to_the_next(scene: Scene, four: Four) -> None:
    first, second, *_ = four
    _, [claimed] = await batch(scene, 1)
    await first.begin()
    await first.finish(ended(claimed, Done("1")))
    late = asyncio.create_task(second.finish(ended(claimed, Done("2"))))
    await second.waits(late)
    await first.rollback()

    assert await late == {claimed.run_id}
    assert (await scene.job(claimed.job_id)).output == 2


async def test_two_retries_at_once_make_one_successor(scene: Scene, four: Four, raw: Raw) -> None:
    first, second, *_ = four
    job_id = await scene.in_state(JobStatus.FAILED, raw)
    await first.begin()
    assert await first.jobs.retry(job_id, JobId(new_id()), None)
    late = asyncio.create_task(second.jobs.retry(job_id, JobId(new_id()), None))
    await second.waits(late)
    await first.commit()

    assert not await late
    assert len(await scene.store.jobs.list()) == 2


# -- leases --------------------------------------------------------------------------------------


async def test_a_heartbeat_that_comes_while_its_worker_is_declared_lost_is_refused(scene: Scene, four: Four) -> None:
    rescuer, heart, *_ = four
    me, worker = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    await scene.clock.advance(seconds=2)
    await rescuer.begin()
    assert await rescuer.declare_lost(me) == [worker]
    beat = asyncio.create_task(heart.beat(worker))
    await heart.waits(beat)
    await rescuer.commit()

    assert not await beat
    assert not await heart.beat(worker)


async def test_a_heartbeat_that_came_first_keeps_its_worker_alive_and_delays_no_judgement(scene: Scene, four: Four) -> None:
    rescuer, heart, *_ = four
    me, worker = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    silent = await scene.worker(lease_seconds=1)
    await scene.clock.advance(seconds=2)
    await heart.begin()
    assert await heart.beat(worker)

    assert await asyncio.wait_for(rescuer.declare_lost(me), 5) == [silent]
    await heart.commit()
    assert await rescuer.declare_lost(me) == []
    assert await heart.beat(worker)


async def test_a_claim_under_way_delays_no_heartbeat_and_no_judgement_and_is_rescued(scene: Scene, four: Four) -> None:
    """Whoever ends the rescue waits for the claim, so that no run is left to a worker that nobody looks at any more."""
    rescuer, claimer, heart, _ = four
    job_id = await scene.submit()
    me, worker = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    await claimer.begin()
    [claimed] = await claimer.claim(worker)
    assert await asyncio.wait_for(heart.beat(worker), 5)
    await scene.clock.advance(seconds=2)
    assert await asyncio.wait_for(rescuer.declare_lost(me), 5) == [worker]
    await asyncio.wait_for(scene.store.workers.close_lost(), 5)
    await claimer.commit()

    assert [run.claimed.run_id for run in await scene.store.workers.lost_runs(10)] == [claimed.run_id]
    assert await scene.rescue() == 1
    assert await scene.status(job_id) is JobStatus.RETRY
    [ended_at] = [one.ended_at for one in await scene.store.workers.list() if one.id == worker]
    assert ended_at is not None


async def test_a_worker_does_not_leave_while_a_claim_of_its_own_is_under_way(scene: Scene, four: Four) -> None:
    claimer, leaver, *_ = four
    await scene.submit()
    worker = await scene.worker()
    await claimer.begin()
    assert len(await claimer.claim(worker)) == 1

    assert not await asyncio.wait_for(leaver.write("workers/leave", id=worker), 5)
    await claimer.commit()
    assert not await leaver.write("workers/leave", id=worker)


async def test_a_claim_that_comes_after_its_worker_was_declared_lost_gets_nothing(scene: Scene, four: Four) -> None:
    rescuer, claimer, *_ = four
    jobs = [await scene.submit() for _ in range(2)]
    me, worker = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    await scene.clock.advance(seconds=2)
    await rescuer.begin()
    assert await rescuer.declare_lost(me) == [worker]
    early = await asyncio.wait_for(claimer.claim(worker, 1), 5)
    await rescuer.commit()

    assert ids(early) == jobs[:1], "it did not wait for what was not yet decided"
    assert await claimer.claim(worker) == []
    assert await scene.rescue() == 1


async def test_two_claims_of_one_worker_do_not_wait_for_each_other(scene: Scene, four: Four) -> None:
    first, second, *_ = four
    jobs = [await scene.submit() for _ in range(2)]
    worker = await scene.worker()
    await first.begin()
    assert ids(await first.claim(worker, 1)) == [jobs[0]]

    assert ids(await asyncio.wait_for(second.claim(worker, 1), 5)) == [jobs[1]]
    await first.commit()


# -- claims and what they may skip ---------------------------------------------------------------


def best_of(claimed: list[Claimed], free: list[JobId]) -> list[JobId]:
    """A claim may bring less than was asked for, but nothing that is free may be passed over."""
    assert claimed
    assert ids(claimed) == free[: len(claimed)]
    return free[len(claimed) :]


async def test_a_claim_skips_only_what_another_claim_holds(scene: Scene, four: Four) -> None:
    jobs = [await scene.submit() for _ in range(9)]
    first, second, third, _ = four
    worker = await scene.worker()
    await first.begin()
    assert ids(await first.claim(worker, 3)) == jobs[:3]

    await second.begin()
    free = best_of(await second.claim(worker, 2), jobs[3:])
    await first.rollback()
    free = best_of(await third.claim(worker, 4), jobs[:3] + free)
    await second.commit()
    while free:
        free = best_of(await third.claim(worker, 4), free)
    assert await third.claim(worker, 4) == []


async def test_an_urgent_job_that_comes_during_a_claim_is_first_in_the_next(scene: Scene, four: Four) -> None:
    first, second, *_ = four
    jobs = [await scene.submit() for _ in range(4)]
    worker = await scene.worker()
    await first.begin()
    await first.claim(worker, 2)
    urgent = await scene.submit(priority=9)

    best_of(await second.claim(worker, 2), [urgent, *jobs[2:]])
    await first.commit()


async def test_a_claim_looks_further_when_a_whole_window_was_taken_under_its_eyes(scene: Scene, four: Four) -> None:
    """The window is read, somebody else holds all of it, and commits before the claim looks for its end."""
    first, second, holder, admin = four
    jobs = [await scene.submit() for _ in range(6)]
    worker = await scene.worker()
    await first.begin()
    await first.claim(worker, 3)
    await admin.connection.execute(
        """
        alter function cortex.lock_entries(uuid[]) rename to lock_entries_at_once;
        create function cortex.lock_entries(_window uuid[]) returns uuid[] language plpgsql as $$
        declare _taken uuid[] := cortex.lock_entries_at_once(_window);
        begin
          perform pg_advisory_xact_lock_shared(4242);
          return _taken;
        end $$
        """
    )
    await holder.connection.execute("select pg_advisory_lock(4242)")
    claim = asyncio.create_task(second.claim(worker, 3))
    await second.waits(claim)
    await first.commit()
    await holder.connection.execute("select pg_advisory_unlock(4242)")

    assert ids(await claim) == jobs[3:]
