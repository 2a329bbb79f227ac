"""At most one running job for each serial key, in order; the database itself keeps the promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId, TenantId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.store import submit_keyed
from tests.contract.support import BOOM, Raw, Refused, Scene, into

pytestmark = pytest.mark.anyio


def ids(claimed: Sequence[Claimed]) -> list[JobId]:
    return [one.job_id for one in claimed]


async def test_one_job_of_a_serial_key_runs_at_a_time_in_order(scene: Scene) -> None:
    jobs = [await scene.submit(serial_key="k") for _ in range(3)]
    free = await scene.submit()
    worker = await scene.worker()

    [first, other] = await scene.claim(worker)
    assert [first.job_id, other.job_id] == [jobs[0], free]
    assert await scene.claim(worker) == []
    await scene.finish(first, Done("1"))
    [second] = await scene.claim(worker)
    assert second.job_id == jobs[1]
    await scene.store.jobs.cancel(second.job_id, None, None)
    assert ids(await scene.claim(worker)) == [jobs[2]]


async def test_the_best_of_a_serial_key_goes_first_even_if_it_came_last(scene: Scene) -> None:
    await scene.submit(serial_key="k")
    urgent = await scene.submit(serial_key="k", priority=9)

    assert ids(await scene.claim(await scene.worker())) == [urgent]


async def test_a_job_of_a_key_that_is_not_due_yet_does_not_block_one_that_is(scene: Scene) -> None:
    later = await scene.submit(serial_key="k", delay_seconds=60, priority=9)
    now = await scene.submit(serial_key="k")
    worker = await scene.worker()
    [first] = await scene.claim(worker)
    assert first.job_id == now

    await scene.clock.advance(minutes=1)
    await scene.store.queue.promote_due(10)
    assert await scene.claim(worker) == []
    await scene.finish(first, Done("1"))
    assert ids(await scene.claim(worker)) == [later]


async def test_a_crowd_of_other_keys_that_are_not_due_does_not_delay_one_that_is(scene: Scene) -> None:
    """Submitted inside a transaction, as the jobs of schedules are."""
    database: Any = scene.store.database
    later, due = await scene.new_job(delay_seconds=60.0), await scene.new_job(serial_key="k")
    crowd = [replace(later, id=JobId(new_id()), serial_key=f"k{number}") for number in range(300)]
    await database.transact(lambda: submit_keyed(crowd))
    await database.transact(lambda: submit_keyed([due]))

    assert ids(await scene.claim(await scene.worker(), 1)) == [due.id]


async def test_a_retry_of_a_serial_key_does_not_block_the_others_while_it_waits(scene: Scene) -> None:
    first, second = [await scene.submit(serial_key="k") for _ in range(2)]
    worker = await scene.worker()
    [claimed] = await scene.claim(worker)
    await scene.finish(claimed, BOOM)

    [other] = await scene.claim(worker)
    assert other.job_id == second
    await scene.clock.advance(minutes=1)
    await scene.store.queue.promote_due(10)
    assert await scene.claim(worker) == []
    await scene.finish(other, Done("1"))
    assert ids(await scene.claim(worker)) == [first]


async def test_a_serial_key_is_its_tenants_own(scene: Scene) -> None:
    tenant = TenantId(new_id())
    await scene.store.tenants.add(tenant, "acme")
    mine = await scene.new_job(serial_key="k")
    theirs = replace(await scene.new_job(serial_key="k"), tenant_id=tenant)
    await scene.store.jobs.submit([mine, theirs])

    assert ids(await scene.claim(await scene.worker())) == [mine.id, theirs.id]


@pytest.mark.parametrize("state", ["ready", "running"])
async def test_deleting_the_job_that_holds_a_key_frees_the_next(scene: Scene, raw: Raw, state: str) -> None:
    first, second = [await scene.submit(serial_key="k") for _ in range(2)]
    worker = await scene.worker()
    if state == "running":
        await scene.claim(worker)
    await raw(f"delete from cortex.job where id = '{first}'")

    assert ids(await scene.claim(worker)) == [second]


async def test_two_owned_runs_of_one_key_are_refused_even_to_raw_sql(scene: Scene, raw: Raw) -> None:
    _, second = [await scene.submit(serial_key="k") for _ in range(2)]
    worker = await scene.worker()
    await scene.claim(worker)

    owned = into(JobStatus.RUNNING, raw).replace("worker_id = null", f"worker_id = '{worker}'")
    with pytest.raises(Refused):
        await raw(f"update cortex.job set {owned} where id = '{second}'")
    assert await scene.status(second) is JobStatus.PENDING


async def test_a_chained_retry_keeps_the_key_and_takes_its_turn(scene: Scene) -> None:
    _, second = [await scene.submit(serial_key="k") for _ in range(2)]
    worker = await scene.worker()
    [claimed] = await scene.claim(worker)
    await scene.finish(claimed, BOOM, RetryPolicy("chain", backoff=Backoff(0)))
    [other] = await scene.claim(worker)
    assert other.job_id == second

    await scene.finish(other, Done("1"))
    [successor] = await scene.claim(worker)
    assert (await scene.job(successor.job_id)).retry_of == claimed.job_id
