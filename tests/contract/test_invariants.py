"""The invariants of the scheduler's persistence, each by its name, with many clients at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from cortex_plane.errors import QueueBusy
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Done, after_crash
from cortex_plane.queues.model import ReservationId
from tests.contract.support import FATAL, Raw, Refused, Scene

pytestmark = pytest.mark.anyio


async def mayhem(scene: Scene, workers: list[WorkerId], seed: int) -> list[Claimed]:
    """Claims, ends, cancels and crashes, all at once; returns everything that was ever claimed."""
    chance, claimed = random.Random(seed), list[Claimed]()

    async def work(worker: WorkerId) -> None:
        for _ in range(6):
            batch = await scene.claim(worker, chance.randint(1, 4))
            claimed.extend(batch)
            for one in batch:
                match chance.choice(["done", "fail", "cancel", "leave"]):
                    case "done":
                        await scene.finish(one, Done("1"))
                    case "fail":
                        await scene.finish(one, FATAL)
                    case "cancel":
                        await scene.store.jobs.cancel(one.job_id, "ada", None)
                    case "leave":
                        pass
        if chance.random() < 0.5:
            await scene.store.workers.give_up(worker)

    await asyncio.gather(*(work(worker) for worker in workers))
    return claimed


async def test_no_running_without_job_run(scene: Scene, raw: Raw) -> None:
    for _ in range(60):
        await scene.submit()
    workers = [await scene.worker() for _ in range(8)]
    await asyncio.gather(mayhem(scene, workers, seed=1), scene.rescue(), scene.rescue())

    alone = """
        select count(*) from cortex.job j where j.status = 'RUNNING' and not exists (
          select 1 from cortex.job_run r where r.job_id = j.id and r.id = j.run_id and r.status = 'RUNNING')"""
    twice = (
        "select count(*) from (select job_id from cortex.job_run where status = 'RUNNING' group by job_id having count(*) > 1) t"
    )
    idle = """
        select count(*) from cortex.job_run r join cortex.job j on j.id = r.job_id
        where r.status = 'RUNNING' and (j.status <> 'RUNNING' or j.run_id <> r.id)"""
    assert [await raw(sql) for sql in (alone, twice, idle)] == [[(0,)]] * 3


async def test_no_orphan_job_runs(scene: Scene, raw: Raw) -> None:
    claimed = [await scene.running() for _ in range(5)]
    for one in claimed[:3]:
        await scene.finish(one, Done("1"))
    for one in claimed[:2]:
        await raw(f"delete from cortex.job where id = '{one.job_id}'")

    orphans = "select count(*) from cortex.job_run r where not exists (select 1 from cortex.job j where j.id = r.job_id)"
    assert await raw(orphans) == [(0,)]
    assert await raw("select count(*) from cortex.job_run") == [(3,)]
    columns = "id, job_id, attempt, tenant_id, queue, job_type, params_snapshot, started_at"
    with pytest.raises(Refused):
        await raw(
            f"insert into cortex.job_run ({columns}) "
            f"select '{new_id()}', '{new_id()}', 1, tenant_id, queue, job_type, params_snapshot, started_at from cortex.job_run"
        )


async def test_no_duplicate_execution(scene: Scene, raw: Raw) -> None:
    """With on_crash="fail" a job that was begun is never begun again: its retry is another job."""
    await scene.agent("once", on_crash="fail")
    for _ in range(40):
        await scene.submit("once")
    workers = [await scene.worker() for _ in range(16)]
    batches = await asyncio.gather(*(scene.claim(worker, 5, job_types=("once",)) for worker in workers))
    for worker in workers[::2]:
        await scene.store.workers.give_up(worker)

    lost = await scene.store.workers.lost_runs(100)
    transitions = [after_crash(one, Chance(0.5, JobId(new_id()))) for one in lost]
    await asyncio.gather(*(scene.store.queue.finish(transitions, "rescuer") for _ in range(3)))
    again = await scene.claim(await scene.worker(), 100, job_types=("once",))
    begun = Counter(one.job_id for batch in [*batches, again] for one in batch)
    assert set(begun.values()) == {1}
    assert len(begun) == 40
    [[retries]] = await raw("select count(*) from cortex.job where retry_of is not null")
    assert retries == len(lost) > 0
    assert await raw("select count(*) from cortex.job_run group by job_id having count(*) > 1") == []


async def test_queue_order_determinism(scene: Scene, raw: Raw) -> None:
    chance = random.Random(7)
    await asyncio.gather(*(scene.submit(priority=chance.randint(-2, 2)) for _ in range(80)))
    sql = "select id from cortex.job where status = 'PENDING' order by priority desc, position, created_at, id"
    stored = [str(row[0]) for row in await raw(sql)]

    assert [str(row[0]) for row in await raw(sql)] == stored
    worker = await scene.worker()
    claimed = [one.job_id for size in (1, 7, 30, 42) for one in await scene.claim(worker, size)]
    assert claimed == stored


async def test_reservation_exclusivity(scene: Scene, raw: Raw) -> None:
    await scene.agent()
    held = 0

    async def reserve(number: int) -> None:
        nonlocal held
        reservation_id, job = ReservationId(new_id()), await scene.new_job()
        try:
            await scene.store.reservations.reserve(reservation_id, job, f"caller {number}", 60)
        except QueueBusy:
            return
        held += 1
        assert held == 1
        await asyncio.sleep(0)
        held -= 1
        await scene.store.jobs.cancel(job.id, None, None)

    for _ in range(3):
        await asyncio.gather(*(reserve(number) for number in range(12)))
        active = "select count(*) from cortex.direct_reservation where status = 'ACTIVE'"
        assert (await raw(active))[0][0] <= 1
