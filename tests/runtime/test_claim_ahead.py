"""RUNNING means running: what a worker has claimed ahead begins at once, or goes back to where others can claim it."""

from __future__ import annotations

import asyncio
import time

import pytest

from cortex_plane import Context, JobHandle, JobStatus, Plane, Submission
from cortex_plane.jobs.model import Claimed, JobId, RunId
from cortex_plane.worker.claims import QUICK_RUNS, Neighbours, Pace
from cortex_plane.worker.slots import LONGEST_WAIT_SECONDS, SlotPool
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, register_worker, status_becomes, working
from tests.runtime.test_pace import StepClock

pytestmark = pytest.mark.anyio


def claimed_job(number: int, job_type: str = "quick") -> Claimed:
    return Claimed(
        job_id=JobId(f"job {number}"),
        run_id=RunId(f"run {number}"),
        job_type=job_type,
        queue="default",
        tenant_id="tenant",  # type: ignore[arg-type]
        payload={},
        attempt=1,
        retry_count=0,
        max_retries=3,
        crash_count=0,
        retry_policy=None,
        timeout_seconds=None,
    )


def busy_pool(clock: StepClock, job_type: str = "quick", slots: int = 2) -> SlotPool:
    """A pool that gets through 1,000 jobs in a second, with a job in each slot."""
    pool = SlotPool(("default",), ("quick", "other"), slots, clock, Pace(clock))
    pool.took([], 20)
    for number in range(1, 101):
        clock.seconds += 0.001
        pool.called(claimed_job(number))
        pool.ran(claimed_job(number), 0.001)
        pool.freed(claimed_job(number).run_id)
        pool.room()
    for number in range(slots):
        pool.called(claimed_job(1_000 + number, job_type))
    return pool


def test_jobs_of_quick_agents_are_claimed_ahead() -> None:
    assert busy_pool(StepClock()).room() > 0


def test_while_a_handler_goes_on_for_long_nothing_is_claimed_ahead() -> None:
    clock = StepClock()
    pool = busy_pool(clock)

    clock.seconds += 0.06

    assert pool.room() <= 0


def test_while_an_agent_runs_that_is_not_known_to_be_quick_nothing_is_claimed_ahead() -> None:
    pool = busy_pool(StepClock(), "other")

    assert pool.room() <= 0


def test_an_agent_is_known_to_be_quick_by_its_last_runs() -> None:
    pace = Pace(StepClock())
    for _ in range(QUICK_RUNS):
        pace.ran("quick", 0.001)
    known = pace.knows_as_quick(["quick"])

    pace.ran("quick", 0.5)

    assert known
    assert not pace.knows_as_quick(["quick"])
    assert not pace.knows_as_quick(["never run here"])


def test_what_waits_for_too_long_is_given_up_oldest_first() -> None:
    clock = StepClock()
    pool = SlotPool(("default",), ("quick",), 1, clock, Pace(clock))
    pool.add([claimed_job(1)])
    clock.seconds += 0.1
    pool.add([claimed_job(2)])

    clock.seconds += LONGEST_WAIT_SECONDS - 0.1
    late = pool.give_up_late()

    assert [claimed.job_id for claimed in late] == ["job 1"]
    assert [claimed.job_id for claimed in pool.backlog] == ["job 2"]
    assert pool.seconds_until_late == pytest.approx(0.1)


@pytest.fixture
def claims_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow its handlers are, a worker claims ten jobs ahead."""
    monkeypatch.setattr(SlotPool, "_ahead", lambda pool: 0 if pool._pace is None else 10)


async def test_a_job_that_finds_no_slot_goes_back_to_the_queue(plane: Plane, claims_ahead: None) -> None:
    go_on = asyncio.Event()

    @plane.agent("work")
    async def work(ctx: Context) -> float:
        await go_on.wait()
        return time.monotonic()

    jobs = await plane.submit_many([Submission("work")] * 3)

    async def handed_back() -> bool:
        statuses = [await job.status() for job in jobs]
        return statuses == [JobStatus.RUNNING, JobStatus.RETRY, JobStatus.RETRY]

    async with working(plane, concurrency=1):
        await status_becomes(jobs[0], JobStatus.RUNNING)
        await eventually(handed_back)
        go_on.set()
        ends = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]

    assert ends == sorted(ends)  # Each keeps its place.
    assert [(await job.job()).retry_count for job in jobs] == [0, 0, 0]


async def test_while_another_worker_has_room_nothing_is_claimed_ahead(plane: Plane, claims_ahead: None) -> None:
    go_on = asyncio.Event()

    @plane.agent("work")
    async def work(ctx: Context) -> None:
        await go_on.wait()

    store = plane.store
    idle = await register_worker(store)
    await store.workers.tell_room(idle, True)
    jobs = await plane.submit_many([Submission("work")] * 3)
    async with working(plane, concurrency=1):
        await status_becomes(jobs[0], JobStatus.RUNNING)
        go_on.set()
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert [await _runs(job) for job in jobs] == [1, 1, 1]  # None was claimed and handed back.


async def test_a_worker_that_finds_nothing_to_do_says_that_it_has_room(plane: Plane) -> None:
    go_on = asyncio.Event()

    @plane.agent("work")
    async def work(ctx: Context) -> None:
        await go_on.wait()

    store = plane.store
    other = await register_worker(store)

    async def seen() -> list[tuple[frozenset[str], frozenset[str]]]:
        return await store.workers.with_room(other)

    async def full() -> bool:
        return not await seen()

    async with working(plane, concurrency=1):
        assert await eventually(seen) == [({"default"}, {"work"})]
        job = await plane.submit("work")
        await eventually(full)
        go_on.set()
        await job.result(timeout=PATIENCE_SECONDS)
        await eventually(seen)

    assert await seen() == []  # It has left.


async def test_room_for_other_agents_is_no_reason_to_leave_jobs_to_others(plane: Plane) -> None:
    store = plane.store
    clock = StepClock()
    this, other = await register_worker(store), await register_worker(store)
    await store.workers.tell_room(other, True)
    same = SlotPool(("default",), ("work",), 1, clock)
    another = SlotPool(("default",), ("another",), 1, clock)
    neighbours = Neighbours(store, clock)

    assert await neighbours.have_room(this, same)
    assert not await neighbours.have_room(this, another)


async def _runs(job: JobHandle[None]) -> int:
    return len(await job.runs())
