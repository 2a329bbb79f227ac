"""What runs have cost reaches the job and the totals with their outcome, once, and only while the run is the job's own."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, Claimed, JobId
from cortex_plane.jobs.outcomes import Done, Interrupted, Outcome
from tests.contract.support import BOOM, FATAL, Raw, Refused, Scene, ended

pytestmark = pytest.mark.anyio

DONE = Done("1")


async def finish_for(scene: Scene, claimed: Claimed, cents: int, outcome: Outcome = DONE) -> bool:
    transition = ended(claimed, outcome)._replace(cost_cents=cents)
    return claimed.run_id in await scene.store.queue.finish([transition], "test")


async def totals(scene: Scene) -> dict[tuple[str, str], int]:
    return {(total.tenant, total.job_type): total.cents for total in await scene.store.costs.totals()}


@pytest.mark.parametrize("outcome", [DONE, BOOM, FATAL, Interrupted()], ids=["done", "retried", "failed", "interrupted"])
async def test_a_run_costs_whatever_became_of_it(scene: Scene, outcome: Outcome) -> None:
    claimed = await scene.running()

    assert await finish_for(scene, claimed, 7, outcome)

    assert (await scene.job(claimed.job_id)).cost_cents == 7
    assert await totals(scene) == {("default", "echo"): 7}


async def test_the_runs_of_a_job_add_up(scene: Scene) -> None:
    first = await scene.running()
    await finish_for(scene, first, 7, Interrupted())
    [second] = await scene.claim(await scene.worker(), 1)

    await finish_for(scene, second, 5)

    assert (await scene.job(first.job_id)).cost_cents == 12
    assert await totals(scene) == {("default", "echo"): 12}


async def test_nothing_is_written_for_what_cost_nothing(scene: Scene) -> None:
    await finish_for(scene, await scene.running(), 0)

    assert await totals(scene) == {}


async def test_a_superseded_run_costs_nothing(scene: Scene) -> None:
    first = await scene.running()
    await scene.finish(first, Interrupted())
    [second] = await scene.claim(await scene.worker(), 1)

    assert not await finish_for(scene, first, 1000)
    assert await finish_for(scene, second, 3)

    assert (await scene.job(first.job_id)).cost_cents == 3
    assert await totals(scene) == {("default", "echo"): 3}


async def test_an_outcome_that_is_sent_twice_costs_once(scene: Scene) -> None:
    """As a worker does that lost the answer."""
    claimed = await scene.running()

    assert await finish_for(scene, claimed, 9)
    assert not await finish_for(scene, claimed, 9)

    assert await totals(scene) == {("default", "echo"): 9}


async def test_totals_are_kept_by_tenant_and_agent_and_can_be_asked_for_by_either(scene: Scene) -> None:
    acme = await scene.tenant("acme")
    worker = await scene.worker()
    for tenant_id, job_type in [(acme, "echo"), (acme, "other"), (DEFAULT_TENANT_ID, "echo")]:
        await scene.submit(job_type, tenant_id=tenant_id)
    for place, claimed in enumerate(await scene.claim(worker, 3, job_types=("echo", "other"))):
        await finish_for(scene, claimed, 10**place)

    costs = scene.store.costs
    assert await totals(scene) == {("acme", "echo"): 1, ("acme", "other"): 10, ("default", "echo"): 100}
    assert [total.cents for total in await costs.totals(tenant_id=acme)] == [1, 10]
    assert [total.cents for total in await costs.totals(job_type="echo")] == [1, 100]
    assert [total.cents for total in await costs.totals(tenant_id=acme, job_type="other")] == [10]


async def test_concurrent_finishes_lose_no_cent(scene: Scene) -> None:
    acme = await scene.tenant("acme")
    jobs = [
        await scene.new_job(job_type, tenant_id=tenant_id, id=JobId(new_id()))
        for tenant_id in (acme, DEFAULT_TENANT_ID)
        for job_type in ("echo", "other")
        for _ in range(50)
    ]
    await scene.store.jobs.submit(jobs)
    claimed = await scene.claim(await scene.worker(), 200, job_types=("echo", "other"))
    assert len(claimed) == 200
    transitions = [ended(one, DONE)._replace(cost_cents=place + 1) for place, one in enumerate(claimed)]

    # Each batch has jobs of every tenant and agent, in an order of its own.
    batches = [transitions[start::20] if start % 2 else transitions[start::20][::-1] for start in range(20)]
    await asyncio.gather(*(scene.store.queue.finish(batch, "test") for batch in batches))

    assert sum((await totals(scene)).values()) == sum(range(1, 201))
    assert len(await totals(scene)) == 4


async def test_a_cost_by_raw_sql_counts_too(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()

    await raw(f"update cortex.job set cost_cents = 40 where id = '{job_id}'")
    await raw(f"update cortex.job set cost_cents = cost_cents + 2 where id = '{job_id}'")

    assert await totals(scene) == {("default", "echo"): 42}


async def test_a_total_outlives_its_job(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    await finish_for(scene, claimed, 8)

    await raw(f"delete from cortex.job where id = '{claimed.job_id}'")

    assert await totals(scene) == {("default", "echo"): 8}


async def test_a_cost_below_nothing_is_refused(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()

    with pytest.raises(Refused):
        await raw(f"update cortex.job set cost_cents = -1 where id = '{job_id}'")
