"""Many at once, on each store: nothing is lost, nothing is done twice, nothing is stuck."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId, NewJob, WorkerId
from cortex_plane.jobs.outcomes import Done, Interrupted
from cortex_plane.jobs.queue_store import Queue
from cortex_plane.jobs.states import JobStatus
from cortex_plane.stores import Store
from tests.contract.sessions import Session, sessions
from tests.contract.support import Scene, ended, run_ids

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CLAIMERS = 64
JOBS = 10_000
BATCH = 40


@pytest.fixture
async def queues(store: Store, database_url: str) -> AsyncIterator[list[Queue]]:
    """One for each claimer: on PostgreSQL with a connection of its own, on SQLite through the one writer."""
    async with AsyncExitStack() as stack:
        if database_url.startswith("sqlite"):
            yield [store.queue] * CLAIMERS
        else:
            opened = await stack.enter_async_context(sessions(database_url, CLAIMERS))
            yield [session.queue for session in opened]


async def many(scene: Scene, count: int, chance: random.Random) -> dict[JobId, tuple[int, int]]:
    """Jobs of several priorities, with the place of each in the queue."""
    one = await scene.new_job()
    jobs = [replace(one, id=JobId(new_id()), priority=chance.randrange(5)) for _ in range(count)]
    for start in range(0, count, 2_500):
        await scene.store.jobs.submit(jobs[start : start + 2_500])
    return {job.id: (-job.priority, place) for place, job in enumerate(jobs)}


async def test_of_64_claimers_each_job_goes_to_one_and_every_batch_is_in_order(scene: Scene, queues: list[Queue]) -> None:
    places = await many(scene, JOBS, random.Random(14))
    workers = [await scene.worker() for _ in range(4)]
    taken: list[Sequence[Claimed]] = []

    async def claim_until_nothing_is_left(queue: Queue, worker: WorkerId) -> None:
        while sum(map(len, taken)) < JOBS:
            claimed = await queue.claim(worker, ["default"], ["echo"], run_ids(BATCH))
            taken.append(claimed)

    await asyncio.gather(*(claim_until_nothing_is_left(queue, workers[n % 4]) for n, queue in enumerate(queues)))

    everyone = Counter(one.job_id for batch in taken for one in batch)
    assert set(everyone) == set(places)
    assert set(everyone.values()) == {1}
    for batch in taken:
        order = [places[one.job_id] for one in batch]
        assert order == sorted(order)
    assert await scene.store.queue.depths() == {}


class Keys:
    """Notices at once when two jobs of one key run."""

    def __init__(self, key_of: dict[JobId, str]) -> None:
        self.key_of = key_of
        self.running: set[str] = set()
        self.done: list[JobId] = []

    def begin(self, claimed: Claimed) -> None:
        key = self.key_of[claimed.job_id]
        assert key not in self.running, f"two jobs of {key} run"
        self.running.add(key)

    def end(self, claimed: Claimed, finally_: bool) -> None:
        """Called before the database is told: from then on another may run."""
        self.running.remove(self.key_of[claimed.job_id])
        if finally_:
            self.done.append(claimed.job_id)


async def test_of_one_serial_key_never_two_run_whoever_claims_finishes_and_submits(scene: Scene, queues: list[Queue]) -> None:
    chance = random.Random(13)
    one = await scene.new_job()
    jobs = [replace(one, id=JobId(new_id()), serial_key=f"key-{n % 3}", priority=chance.randrange(3)) for n in range(300)]
    keys = Keys({job.id: str(job.serial_key) for job in jobs})
    workers = [await scene.worker() for _ in range(4)]

    async def submit(part: Sequence[NewJob]) -> None:
        for start in range(0, len(part), 5):
            await scene.store.jobs.submit(part[start : start + 5])

    async def work(queue: Queue, worker: WorkerId) -> None:
        while len(keys.done) < len(jobs):
            claimed = await queue.claim(worker, ["default"], ["echo"], run_ids(3))
            for run in claimed:
                keys.begin(run)
            for run in claimed:
                await asyncio.sleep(0)
                again = chance.random() < 0.2
                keys.end(run, finally_=not again)
                assert await queue.finish([ended(run, Interrupted() if again else Done("1"))], "test") == {run.run_id}
            if not claimed:
                await asyncio.sleep(0.002)

    await asyncio.gather(
        *(submit(jobs[n::4]) for n in range(4)), *(work(queue, workers[n % 4]) for n, queue in enumerate(queues[:16]))
    )
    assert sorted(keys.done) == sorted(job.id for job in jobs)
    assert await scene.store.queue.depths() == {}


@pytest.fixture
async def pair(postgres_url: str) -> AsyncIterator[tuple[Session, Session]]:
    async with sessions(postgres_url, 2) as [first, second]:
        yield first, second


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_cancel_and_a_claim_never_deadlock_and_the_cancel_always_holds(
    scene: Scene, pair: tuple[Session, Session]
) -> None:
    claimer, canceller = pair
    worker = await scene.worker()
    chance = random.Random(18)
    for _ in range(200):
        jobs = [await scene.new_job() for _ in range(3)]
        await scene.store.jobs.submit(jobs)
        target = chance.choice(jobs).id
        claimed, cancelled = await asyncio.gather(claimer.claim(worker, 3), canceller.cancel(target))

        assert cancelled
        rest = await claimer.claim(worker, 3)
        assert {one.job_id for one in [*claimed, *rest]} >= {job.id for job in jobs} - {target}
        assert await scene.status(target) is JobStatus.CANCELLED


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_cancels_finishes_and_submissions_of_the_same_keys_never_deadlock(
    scene: Scene, pair: tuple[Session, Session]
) -> None:
    """Both sides name the keys in opposite orders; a deadlock would be raised by one of the two sessions."""
    first, second = pair
    worker = await scene.worker()
    for _ in range(60):
        jobs = [await scene.new_job(serial_key=f"key-{n % 4}") for n in range(8)]
        await scene.store.jobs.submit(jobs)
        claimed = await first.claim(worker, 8)
        blocked = [job.id for job in jobs[4:]]
        fresh = [await scene.new_job(serial_key=f"key-{n}") for n in range(4)]

        await asyncio.gather(first.finish(*(ended(one, Done("1")) for one in claimed)), second.submit(*reversed(fresh)))
        for job_id, one in zip(blocked, await first.claim(worker, 8), strict=False):
            await asyncio.gather(first.finish(ended(one, Done("1"))), second.cancel(job_id))
        for job in [*jobs, *fresh]:
            await first.cancel(job.id)
    assert await scene.store.queue.depths() == {}
