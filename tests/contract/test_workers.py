"""Workers and their leases: one way from LIVE, and what a lost one leaves behind."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from cortex_plane.agents.model import AgentConfig
from cortex_plane.errors import WorkerHasEnded
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Done, after_crash
from cortex_plane.jobs.states import JobStatus, RunStatus, WorkerStatus
from cortex_plane.queues.why import explain_job
from cortex_plane.worker.model import Beat, NewWorker, WorkerRecord
from cortex_plane.worker.rescue import declare_lost, rescue_runs
from cortex_plane.worker.service import drain_worker
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


async def record(scene: Scene, worker_id: WorkerId) -> WorkerRecord:
    return next(worker for worker in await scene.store.workers.list() if worker.id == worker_id)


async def test_a_registered_worker_lives_until_its_lease(scene: Scene) -> None:
    worker_id = WorkerId(new_id())
    await scene.store.workers.register(NewWorker(worker_id, "host:1", ("a", "b"), ("echo",), 20, 12.5))

    worker = await record(scene, worker_id)
    assert worker == WorkerRecord(
        worker_id,
        "host:1",
        WorkerStatus.LIVE,
        ["a", "b"],
        ["echo"],
        20,
        scene.now,
        scene.now,
        scene.now + timedelta(seconds=12.5),
        None,
    )


async def test_registering_twice_changes_nothing(scene: Scene) -> None:
    worker_id = await scene.worker("first")
    await scene.store.workers.give_up(worker_id)
    await scene.store.workers.register(NewWorker(worker_id, "second", (), (), 1))

    worker = await record(scene, worker_id)
    assert (worker.name, worker.status) == ("first", WorkerStatus.LOST)


async def test_a_heartbeat_renews_the_lease(scene: Scene) -> None:
    worker_id = await scene.worker(lease_seconds=10)
    await scene.clock.advance(seconds=7)
    assert await asyncio.to_thread(scene.store.workers.heartbeat(worker_id), 5.0)

    worker = await record(scene, worker_id)
    assert (worker.heartbeat_at, worker.lease_until) == (scene.now, scene.now + timedelta(seconds=10))


@pytest.mark.parametrize("end", ["leave", "give_up", "declare_lost", "unknown"])
async def test_a_worker_that_does_not_live_has_no_heartbeat(scene: Scene, end: str) -> None:
    worker_id = await scene.worker(lease_seconds=1)
    match end:
        case "leave":
            assert await scene.store.workers.leave(worker_id)
        case "give_up":
            assert await scene.store.workers.give_up(worker_id)
        case "declare_lost":
            await scene.clock.advance(seconds=2)
            assert await scene.store.workers.declare_lost(WorkerId(new_id())) == [(worker_id, "worker")]
        case _:
            worker_id = WorkerId(new_id())

    assert not await asyncio.to_thread(scene.store.workers.heartbeat(worker_id), 5.0)
    assert not await scene.store.workers.leave(worker_id)
    assert not await scene.store.workers.give_up(worker_id)


async def test_a_heartbeat_does_not_depend_on_the_event_loop(scene: Scene) -> None:
    """The thread of the heart beats while the loop is blocked; here the loop is blocked by waiting for it."""
    worker_id = await scene.worker()
    with ThreadPoolExecutor(1) as heart:
        beats = [heart.submit(scene.store.workers.heartbeat(worker_id), 5.0).result(10) for _ in range(3)]

    assert beats == [Beat.GO_ON] * 3


async def test_only_silence_beyond_the_lease_makes_a_worker_lost(scene: Scene) -> None:
    me, other = await scene.worker(lease_seconds=10), await scene.worker(lease_seconds=10)
    await scene.clock.advance(seconds=10)
    assert await scene.store.workers.declare_lost(me) == []

    await scene.clock.advance(seconds=0.000001)
    assert await scene.store.workers.declare_lost(me) == [(other, "worker")]
    assert (await record(scene, other)).status is WorkerStatus.LOST
    assert (await record(scene, me)).status is WorkerStatus.LIVE, "nobody declares himself"


async def test_a_worker_is_declared_lost_once(scene: Scene) -> None:
    me, _ = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    await scene.clock.advance(seconds=2)

    assert len(await scene.store.workers.declare_lost(me)) == 1
    assert await scene.store.workers.declare_lost(me) == []


async def test_a_worker_that_left_in_order_is_never_lost(scene: Scene) -> None:
    me, other = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    await scene.store.workers.leave(other)
    await scene.clock.advance(minutes=1)

    assert await scene.store.workers.declare_lost(me) == []
    worker = await record(scene, other)
    assert (worker.status, worker.ended_at is not None) == (WorkerStatus.STOPPED, True)


async def test_the_runs_of_a_lost_worker_are_found_with_all_that_a_decision_needs(scene: Scene) -> None:
    await scene.agent("echo", on_crash="fail", crash_limit=7)
    jobs = [await scene.submit(payload=f'{{"n":{n}}}') for n in range(3)]
    worker = await scene.worker()
    claimed = await scene.claim(worker)
    await scene.finish(claimed[1], Done("1"))
    assert await scene.store.workers.lost_runs(10) == []

    await scene.store.workers.give_up(worker)
    lost = await scene.store.workers.lost_runs(10)
    assert [run.claimed for run in lost] == [claimed[0], claimed[2]]
    assert [run.claimed.job_id for run in lost] == [jobs[0], jobs[2]]
    assert {run.worker_id for run in lost} == {worker}
    assert [await scene.store.workers.crashed_run(run.claimed.job_id, run.claimed.run_id) for run in lost] == lost
    assert await scene.store.workers.crashed_run(claimed[1].job_id, claimed[1].run_id) is None
    assert {run.agent for run in lost} == {AgentConfig(on_crash="fail", crash_limit=7)}
    assert len(await scene.store.workers.lost_runs(1)) == 1


async def test_a_rescue_goes_on_until_no_run_is_left_and_then_ends(scene: Scene) -> None:
    for _ in range(5):
        await scene.submit()
    me, dead = await scene.worker(lease_seconds=1000), await scene.worker(lease_seconds=1)
    claimed = await scene.claim(dead)
    await scene.clock.advance(seconds=2)
    assert await declare_lost(scene.store, me) == 1

    assert await rescue_runs(scene.store, me, new_id, lambda: 0.5) == 5
    assert (await record(scene, dead)).ended_at == scene.now
    for one in claimed:
        job = await scene.job(one.job_id)
        assert (job.status, job.wait_reason, job.retry_count, job.crash_count) == (JobStatus.RETRY, "worker_lost", 0, 1)
        [run] = await scene.store.jobs.runs(one.job_id)
        assert (run.status, run.error) == (RunStatus.FAILED, "worker lost")
    assert await scene.store.queue.depths() == {"default": {"ready": 5}}


async def test_a_lost_worker_without_a_run_is_closed_and_one_with_a_run_is_not(scene: Scene) -> None:
    idle, busy = await scene.worker(), await scene.worker()
    await scene.submit()
    await scene.claim(busy)
    await scene.store.workers.give_up(idle)
    await scene.store.workers.give_up(busy)
    await scene.store.workers.close_lost()

    assert (await record(scene, idle)).ended_at == scene.now
    assert (await record(scene, busy)).ended_at is None


async def test_two_rescuers_rescue_each_run_once(scene: Scene) -> None:
    claimed = await scene.running()
    assert claimed.attempt == 1
    worker = (await scene.job(claimed.job_id)).worker_id
    assert worker is not None
    await scene.store.workers.give_up(worker)
    [lost] = await scene.store.workers.lost_runs(10)
    transitions = [after_crash(lost, Chance(0.5, JobId(new_id()))) for _ in range(2)]

    assert await scene.store.queue.finish([transitions[0]], "worker:a") == {claimed.run_id}
    assert await scene.store.queue.finish([transitions[1]], "worker:b") == set()
    assert (await scene.job(claimed.job_id)).crash_count == 1


async def test_a_job_that_was_cancelled_meanwhile_is_not_rescued(scene: Scene) -> None:
    claimed = await scene.running()
    worker = (await scene.job(claimed.job_id)).worker_id
    assert worker is not None
    await scene.store.workers.give_up(worker)
    await scene.store.jobs.cancel(claimed.job_id, None, None)

    assert await scene.store.workers.lost_runs(10) == []


async def test_a_run_that_no_worker_owns_is_never_rescued(scene: Scene, raw: Raw) -> None:
    """An approved job is RUNNING and waits for a worker to take its run over."""
    job_id = await scene.submit()
    await raw(
        f"update cortex.job set status = 'RUNNING', run_id = '{new_id()}', attempt = 1, "
        f"updated_at = {'updated_at + 1' if raw.kind == 'sqlite' else 'cortex.now()'} where id = '{job_id}'"
    )
    await scene.clock.advance(days=1)
    await scene.store.workers.declare_lost(await scene.worker())

    assert await scene.store.workers.lost_runs(10) == []
    assert await scene.status(job_id) is JobStatus.RUNNING


async def test_workers_are_listed_living_first_then_the_latest(scene: Scene) -> None:
    names = []
    for name in ("a", "b", "c", "d"):
        names.append(await scene.worker(name))
        await scene.clock.advance(seconds=1)
    await scene.store.workers.leave(names[3])
    await scene.store.workers.give_up(names[1])

    assert [worker.name for worker in await scene.store.workers.list()] == ["c", "a", "d", "b"]
    assert [worker.name for worker in await scene.store.workers.list(limit=1)] == ["c"]


async def test_a_worker_that_is_to_be_drained_hears_of_it_at_its_heartbeat_and_keeps_its_lease(scene: Scene) -> None:
    worker_id = await scene.worker("host:1")
    before = await asyncio.to_thread(scene.store.workers.heartbeat(worker_id), 5.0)

    assert await drain_worker(scene.store, "host:1", actor="ada", reason="a new machine")
    await scene.clock.advance(seconds=7)
    after = await asyncio.to_thread(scene.store.workers.heartbeat(worker_id), 5.0)

    worker = await record(scene, worker_id)
    assert (before, after) == (Beat.GO_ON, Beat.DRAIN)
    assert (worker.status, worker.standing, worker.draining) == (WorkerStatus.LIVE, "DRAINING", True)
    assert (worker.drain_asked_by, worker.drain_reason, worker.heartbeat_at) == ("ada", "a new machine", scene.now)


async def test_asking_to_drain_twice_changes_nothing_and_is_recorded_once(scene: Scene) -> None:
    worker_id = await scene.worker("host:1")

    first = await drain_worker(scene.store, worker_id, actor="ada", reason="first")
    second = await drain_worker(scene.store, worker_id, actor="ben", reason="second")

    [entry] = [one.entry for one in await scene.store.audit.list(worker_id)]
    assert (first, second) == (True, False)
    assert (await record(scene, worker_id)).drain_asked_by == "ada"
    assert (entry.action, entry.actor, entry.reason, entry.details) == ("WORKER_DRAINED", "ada", "first", {"name": "host:1"})


async def test_a_worker_that_has_left_can_neither_be_drained_nor_forgets_that_it_was(scene: Scene) -> None:
    drained, lost = await scene.worker("host:1"), await scene.worker("host:2")
    await drain_worker(scene.store, drained, actor=None, reason=None)
    await scene.store.workers.leave(drained)
    await scene.store.workers.give_up(lost)

    for worker_id, standing in ((drained, "DRAINED"), (lost, "LOST")):
        assert (await record(scene, worker_id)).standing == standing
        with pytest.raises(WorkerHasEnded, match=standing):
            await drain_worker(scene.store, worker_id, actor="ada", reason=None)
    assert (await record(scene, lost)).drain_asked_at is None


async def test_who_is_being_drained_is_not_counted_as_a_worker_for_a_job(scene: Scene) -> None:
    job_id, worker_id = await scene.submit(), await scene.worker()
    with_one = await explain_job(scene.store, await scene.job(job_id))

    await drain_worker(scene.store, worker_id, actor=None, reason=None)
    without = await explain_job(scene.store, await scene.job(job_id))

    assert with_one != without
