"""What becomes of the jobs of a worker that fell silent, as the crash policy of their agent says."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane import Backoff, JobStatus, RetryPolicy, RunStatus, WaitReason
from cortex_plane.agents.model import AgentConfig
from cortex_plane.durable.schema import Checkpoint
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, Claimed, Job, JobId, NewJob, WorkerId
from cortex_plane.jobs.outcomes import Chance, Transition, after_crash
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from cortex_plane.worker.model import Beat, actor_of
from cortex_plane.worker.rescue import declare_lost, finish_runs, rescue_runs
from tests.end_to_end.inspection import broken_rules
from tests.runtime.helpers import claim, register_agent, register_worker, submit_to

pytestmark = pytest.mark.anyio

FAIL = AgentConfig(on_crash="fail", retry=RetryPolicy("in_place", 1, Backoff(base_seconds=10, jitter=False)))


class Fleet:
    """Workers that live and die on one store."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock

    async def lose(self, worker_id: WorkerId) -> int:
        """Its lease runs out; another worker, which lives, rescues what it held."""
        await self.clock.advance(seconds=16)
        rescuer = await register_worker(self.store)
        await declare_lost(self.store, rescuer)
        return await rescue_runs(self.store, rescuer, new_id, lambda: 0.5)

    async def crash_with(self, count: int = 1) -> list[Claimed]:
        """A worker claims so many jobs in one go, and dies."""
        worker_id = await register_worker(self.store)
        claimed = await claim(self.store, worker_id, count)
        await self.lose(worker_id)
        return claimed

    async def job(self, job_id: str) -> Job:
        job = await self.store.jobs.get(JobId(job_id))
        assert job is not None
        return job


@pytest.fixture
def fleet(store: Store, clock: ManualClock) -> Fleet:
    return Fleet(store, clock)


async def test_resume_makes_the_job_due_at_once_and_costs_no_retry(fleet: Fleet, store: Store, clock: ManualClock) -> None:
    (job_id,) = await submit_to(store, await register_agent(store), 1)
    before = await fleet.job(job_id)

    await fleet.crash_with(1)

    job = await fleet.job(job_id)
    assert (job.status, job.wait_reason, job.retry_count, job.crash_count) == (JobStatus.RETRY, WaitReason.WORKER_LOST, 0, 1)
    assert (job.next_retry_at, job.position) == (clock.moment(), before.position)
    (run,) = await store.jobs.runs(job_id)
    assert (run.status, run.error) == (RunStatus.FAILED, "worker lost")
    assert (await store.jobs.history(job_id))[-1].cause == "rescue"
    assert len(await claim(store, await register_worker(store), 1)) == 1


async def test_fail_ends_the_job_and_goes_on_by_a_linked_one(fleet: Fleet, store: Store) -> None:
    (job_id,) = await submit_to(store, await register_agent(store, FAIL), 1, max_retries=1)

    await fleet.crash_with(1)

    job = await fleet.job(job_id)
    assert (job.status, job.error_message) == (JobStatus.FAILED, "Scheduler crash recovery")
    successor = await fleet.job(str(job.retried_as))
    assert (successor.status, successor.retry_of, successor.retry_count) == (JobStatus.PENDING, job_id, 1)
    (run,) = await store.jobs.runs(job_id)
    assert (run.status, run.error) == (RunStatus.FAILED, "Scheduler crash recovery")


async def test_fail_without_retries_left_is_the_end(fleet: Fleet, store: Store) -> None:
    (job_id,) = await submit_to(store, await register_agent(store, FAIL), 1, max_retries=0)

    await fleet.crash_with(1)

    job = await fleet.job(job_id)
    assert (job.status, job.retried_as) == (JobStatus.FAILED, None)
    assert [entry.entry.action for entry in await store.audit.list(job_id)] == ["JOB_EXHAUSTED_RETRIES"]


async def test_crashes_of_workers_are_counted_and_only_make_a_job_suspect(fleet: Fleet, store: Store) -> None:
    (job_id,) = await submit_to(store, await register_agent(store), 1)

    counts = []
    for _ in range(5):
        await fleet.crash_with(1)
        counts.append((await fleet.job(job_id)).crash_count)

    assert counts == [1, 2, 3, 4, 5]
    assert (await fleet.job(job_id)).status is JobStatus.RETRY


async def test_a_job_that_no_worker_can_try_apart_does_not_kill_for_ever(fleet: Fleet, store: Store) -> None:
    (job_id,) = await submit_to(store, await register_agent(store), 1)

    for _ in range(10):
        await fleet.crash_with(1)

    job = await fleet.job(job_id)
    assert (job.status, job.retry_count, job.error["type"]) == (JobStatus.FAILED, 0, "POISONED")
    [failure] = [one.entry for one in await store.audit.list(job_id)]
    assert (failure.action, failure.details["error"]) == ("JOB_FAILED", "POISONED")
    assert await claim(store, await register_worker(store), 1) == []


async def test_progress_between_two_crashes_begins_the_count_anew(fleet: Fleet, store: Store) -> None:
    (job_id,) = await submit_to(store, await register_agent(store), 1)

    counts, last = [], None
    for progress in (False, False, True, False, True, True):
        worker_id = await register_worker(store)
        (claimed,) = await claim(store, worker_id, 1)
        if progress:
            checkpoint_id = new_id()
            saved = await store.checkpoints.save([Checkpoint(job_id, claimed.run_id, checkpoint_id, last, "{}")])
            assert saved == {claimed.run_id}
            last = checkpoint_id
        await fleet.lose(worker_id)
        counts.append((await fleet.job(job_id)).crash_count)

    assert counts == [1, 2, 1, 2, 1, 1]


async def test_all_jobs_of_a_dead_worker_are_ready_at_once_and_in_their_old_places(fleet: Fleet, store: Store) -> None:
    agent = await register_agent(store)
    ids = await submit_to(store, agent, 20)
    await fleet.crash_with(20)
    (new,) = await submit_to(store, agent, 1)

    workers = [await register_worker(store) for _ in range(3)]
    claims = [[claimed.job_id for claimed in await claim(store, worker, 7)] for worker in workers]

    assert claims == [ids[:7], ids[7:14], [*ids[14:], new]]


async def test_a_worker_is_lost_only_when_its_last_lease_has_run_out(fleet: Fleet, store: Store, clock: ManualClock) -> None:
    (job_id,) = await submit_to(store, await register_agent(store), 1)
    worker_id = await register_worker(store, lease_seconds=15.0)
    await claim(store, worker_id, 1)

    await clock.advance(seconds=14)
    assert await asyncio.to_thread(store.workers.heartbeat(worker_id), 5.0)
    await clock.advance(seconds=15)
    in_time = await declare_lost(store, await register_worker(store))
    await clock.advance(microseconds=1)
    too_late = await declare_lost(store, await register_worker(store))

    assert (in_time, too_late) == (0, 1)
    assert (await fleet.job(job_id)).status is JobStatus.RUNNING  # Declaring is not yet rescuing.


async def test_a_worker_never_declares_itself_lost(store: Store, clock: ManualClock) -> None:
    worker_id = await register_worker(store)
    await clock.advance(minutes=10)

    assert await declare_lost(store, worker_id) == 0
    assert await asyncio.to_thread(store.workers.heartbeat(worker_id), 5.0)


async def test_a_lost_worker_can_neither_beat_nor_claim_nor_finish(fleet: Fleet, store: Store) -> None:
    agent = await register_agent(store)
    (job_id,) = await submit_to(store, agent, 1)
    worker_id = await register_worker(store)
    (claimed,) = await claim(store, worker_id, 1)
    await fleet.lose(worker_id)
    await submit_to(store, agent, 3)

    beats = await asyncio.to_thread(store.workers.heartbeat(worker_id), 5.0)
    claims = await claim(store, worker_id, 3)
    late = Transition(claimed.job_id, claimed.run_id, JobStatus.COMPLETED, "complete", output='"late"')
    finished = await finish_runs(store, [late], actor_of(worker_id))

    assert (beats, claims, finished) == (Beat.LOST, [], set())
    job = await fleet.job(job_id)
    assert (job.status, job.output) == (JobStatus.RETRY, None)
    assert [entry.entry.action for entry in await store.audit.list(job_id)] == ["STALE_WRITE"]


async def test_two_rescuers_rescue_each_run_once(fleet: Fleet, store: Store, clock: ManualClock, database_url: str) -> None:
    ids = await submit_to(store, await register_agent(store), 250)
    worker_id = await register_worker(store)
    assert len(await claim(store, worker_id, 250)) == 250
    await clock.advance(seconds=16)

    async def rescue() -> int:
        rescuer = await register_worker(store)
        await declare_lost(store, rescuer)
        return await rescue_runs(store, rescuer, new_id, lambda: 0.5)

    counts = await asyncio.gather(rescue(), rescue(), rescue())

    assert sum(counts) == 250
    assert {(await fleet.job(job_id)).status for job_id in ids[::25]} == {JobStatus.RETRY}
    assert await broken_rules(database_url) == {}


@pytest.mark.parametrize("recoveries", ["one after the other", "at once"])
async def test_retry_creation_is_idempotent_however_often_recovery_runs(
    fleet: Fleet, store: Store, clock: ManualClock, database_url: str, recoveries: str
) -> None:
    """Spec 4.4: if the retry exists, none is created; if it does not, one is."""
    ids = await submit_to(store, await register_agent(store, FAIL), 20, max_retries=1)
    assert len(await claim(store, await register_worker(store), 20)) == 20
    await clock.advance(seconds=16)
    rescuers = [await register_worker(store) for _ in range(2)]

    async def recover(rescuer: WorkerId) -> int:
        await declare_lost(store, rescuer)
        return await rescue_runs(store, rescuer, new_id, lambda: 0.5)

    if recoveries == "at once":
        assert sum(await asyncio.gather(*map(recover, rescuers))) == 20
    else:
        assert [await recover(rescuer) for rescuer in rescuers] == [20, 0]
    assert await recover(rescuers[0]) == 0

    for job_id in ids:
        job = await fleet.job(job_id)
        successor = await fleet.job(str(job.retried_as))
        assert (job.status, successor.status, successor.retry_of) == (JobStatus.FAILED, JobStatus.PENDING, job_id)
    assert len(await store.jobs.list()) == 40
    assert await broken_rules(database_url) == {}


@pytest.mark.parametrize("seen_by", [1, 2])
async def test_a_recovery_that_looks_again_with_what_it_saw_before_creates_no_second_retry(
    fleet: Fleet, store: Store, clock: ManualClock, seen_by: int
) -> None:
    """Both have read the lost run before either writes: the slower one finds it closed."""
    (job_id,) = await submit_to(store, await register_agent(store, FAIL), 1, max_retries=1)
    await claim(store, await register_worker(store), 1)
    await clock.advance(seconds=16)
    rescuer = await register_worker(store)
    await declare_lost(store, rescuer)
    (lost,) = await store.workers.lost_runs(10)

    for _ in range(1 + seen_by):
        await store.queue.finish([after_crash(lost, Chance(0.5, JobId(new_id())))], actor_of(rescuer))

    assert len(await store.jobs.list()) == 2
    assert (await fleet.job(job_id)).retried_as is not None


@pytest.mark.parametrize("jobs", [0, 2])
async def test_the_rescue_of_a_worker_has_an_end(fleet: Fleet, store: Store, jobs: int) -> None:
    await submit_to(store, await register_agent(store), jobs)
    worker_id = await register_worker(store)
    await claim(store, worker_id, 2)

    await fleet.lose(worker_id)

    (lost,) = [worker for worker in await store.workers.list() if worker.id == worker_id]
    assert lost.status is WorkerStatus.LOST
    assert lost.ended_at is not None


async def test_a_serial_key_is_free_again_after_the_rescue(fleet: Fleet, store: Store, database_url: str) -> None:
    agent = await register_agent(store)
    jobs = [
        NewJob(JobId(new_id()), DEFAULT_TENANT_ID, agent.id, "work", "default", "{}", serial_key="key", max_retries=3)
        for _ in range(2)
    ]
    await store.jobs.submit(jobs)

    (first,) = await fleet.crash_with(5)
    again = await claim(store, await register_worker(store), 5)

    assert [claimed.job_id for claimed in again] == [first.job_id]
    assert await broken_rules(database_url) == {}
