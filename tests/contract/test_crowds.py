"""What operators set holds in a crowd: limits under 64 claimers at once, and fair shares beside 100,000 waiting jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId, TenantId, WorkerId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.queue_store import Queue
from cortex_plane.queues import controls
from cortex_plane.queues.model import Scope
from cortex_plane.stores import Store
from tests.contract.sessions import sessions
from tests.contract.support import Raw, Scene, ended, run_ids

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CLAIMERS = 64
LIMIT = 7
JOBS = 160
WOKEN = 16
OPEN_RUNS = "select count(*) from cortex.job where status = 'RUNNING'"
CROWD = 100_000
BATCH = 5_000
Lane = tuple[str, str]
"""A queue, and an agent whose jobs wait there."""


@pytest.fixture
async def queues(store: Store, database_url: str) -> AsyncIterator[list[Queue]]:
    """One for each claimer: on PostgreSQL with a connection of its own, on SQLite through the one writer."""
    if database_url.startswith("sqlite"):
        yield [store.queue] * CLAIMERS
    else:
        async with sessions(database_url, CLAIMERS) as opened:
            yield [session.queue for session in opened]


async def fill(scene: Scene, count: int, lane: Lane, tenant: TenantId) -> None:
    queue, job_type = lane
    one = await scene.new_job(job_type, queue=queue, tenant_id=tenant)
    jobs = [replace(one, id=JobId(new_id())) for _ in range(count)]
    for start in range(0, count, BATCH):
        await scene.store.jobs.submit(jobs[start : start + BATCH])


# Claimers that know one lane each see no entry of the others; only the limit makes them take turns.
LANES: dict[Scope, list[Lane]] = {
    Scope.QUEUE: [("default", f"echo-{n}") for n in range(4)],
    Scope.AGENT: [(f"queue-{n}", "echo") for n in range(4)],
    Scope.TENANT: [(f"queue-{n}", f"echo-{n}") for n in range(4)],
}


class Crowd:
    """Jobs in several lanes that all fall under one limit, and 64 claimers that know one lane each."""

    def __init__(self, scene: Scene, scope: Scope, queues: list[Queue]) -> None:
        self.scene, self.scope, self.queues = scene, scope, queues
        self.lanes = LANES[scope]
        self.workers: list[WorkerId] = []

    async def gather(self) -> None:
        tenant = await self.scene.tenant("acme")
        for lane in self.lanes:
            await fill(self.scene, JOBS // len(self.lanes), lane, tenant)
        name = {Scope.QUEUE: "default", Scope.AGENT: "echo", Scope.TENANT: tenant}[self.scope]
        await controls.limit(self.scene.store, self.scope, name, LIMIT, actor="ada")
        self.workers = [await self.scene.worker() for _ in range(8)]

    async def claim(self, n: int) -> list[Claimed]:
        """What the nth claimer is given."""
        queue, job_type = self.lanes[n % len(self.lanes)]
        return await self.queues[n].claim(self.workers[n % 8], [queue], [job_type], run_ids(3))

    async def claim_everywhere(self, worker: WorkerId, limit: int) -> list[Claimed]:
        queues, job_types = ([lane[n] for lane in self.lanes] for n in (0, 1))
        return await self.scene.claim(worker, limit, queues, job_types)


@pytest.fixture(params=list(LANES))
async def crowd(scene: Scene, queues: list[Queue], request: pytest.FixtureRequest) -> Crowd:
    crowd = Crowd(scene, request.param, queues)
    await crowd.gather()
    return crowd


class Floor:
    """Whoever found no free place waits here until a job has ended. Then many try at once, for one place."""

    def __init__(self) -> None:
        self.done = 0
        self._changed = asyncio.Condition()

    async def left(self, jobs: int) -> None:
        async with self._changed:
            self.done += jobs
            self._changed.notify(CLAIMERS if self.done == JOBS else WOKEN * jobs)

    async def wait_for_more_than(self, done: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.done > done)


async def test_64_claimers_never_exceed_a_limit_while_others_finish(crowd: Crowd, raw: Raw) -> None:
    floor, counted, reading = Floor(), list[int](), asyncio.Lock()

    async def count() -> None:
        """As the database itself shows it to somebody else, after every claim."""
        async with reading:
            counted.extend(row[0] for row in await raw(OPEN_RUNS))

    async def work(n: int) -> None:
        while floor.done < JOBS:
            done_before = floor.done
            claimed = await crowd.claim(n)
            await count()
            if claimed:
                await crowd.queues[n].finish([ended(run, Done("1")) for run in claimed], "test")
                await floor.left(len(claimed))
            else:
                await floor.wait_for_more_than(done_before)

    await asyncio.gather(*(work(n) for n in range(CLAIMERS)))

    assert floor.done == JOBS
    assert len(counted) > JOBS / 3
    assert 1 < max(counted) <= LIMIT  # By the time somebody counts, some may have ended.


async def test_64_claimers_at_once_share_the_last_free_places(crowd: Crowd) -> None:
    claims = await asyncio.gather(*(crowd.claim(n) for n in range(CLAIMERS)))

    assert sum(len(claim) for claim in claims) == LIMIT


async def test_a_limit_frees_itself_when_a_worker_dies_and_the_crowd_that_comes_next_keeps_it(crowd: Crowd) -> None:
    scene, dead = crowd.scene, await crowd.scene.worker()
    lost = await crowd.claim_everywhere(dead, LIMIT)
    assert (len(lost), await crowd.claim_everywhere(crowd.workers[0], LIMIT)) == (LIMIT, [])
    await scene.store.workers.give_up(dead)

    early, rescued = await asyncio.gather(asyncio.gather(*(crowd.claim(n) for n in range(32))), scene.rescue())
    late = await asyncio.gather(*(crowd.claim(n) for n in range(CLAIMERS)))

    assert rescued == LIMIT
    assert sum(len(claimed) for claimed in [*early, *late]) == LIMIT


async def test_beside_100_000_waiting_jobs_another_tenants_first_job_is_in_the_very_next_claim(scene: Scene) -> None:
    await controls.share_fairly(scene.store, "default", True, actor="ada")
    loud, quiet = await scene.tenant("loud"), await scene.tenant("quiet")
    worker = await scene.worker()
    await fill(scene, CROWD, ("default", "echo"), loud)
    assert len(await scene.claim(worker, 200)) == 200

    mine = await scene.submit(tenant_id=quiet)

    assert [one.job_id for one in await scene.claim(worker, 1)] == [mine]
    assert len(await scene.claim(worker, 10)) == 10
