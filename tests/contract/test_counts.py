"""How much waits in each queue and for each tenant is kept as counts, in step with the entries, whoever changes them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, TenantId
from cortex_plane.jobs.outcomes import Done
from tests.contract.sessions import Four
from tests.contract.support import BOOM, Raw, Scene

pytestmark = pytest.mark.anyio


async def counted(raw: Raw, column: str, where: str = "true") -> dict[str, dict[str, int]]:
    """By counting."""
    found: dict[str, dict[str, int]] = {}
    rows = await raw(f"select {column}, state, count(*) from cortex.queue_entry where {where} group by {column}, state")
    for name, state, entries in rows:
        found.setdefault(str(name), {})[str(state)] = entries
    return found


async def check(scene: Scene, raw: Raw) -> None:
    assert await scene.store.queue.depths() == await counted(raw, "queue")
    by_tenant = await counted(raw, "tenant_id", f"queue <> '{INTERNAL_QUEUE}'")
    for tenant in await scene.store.tenants.list():
        assert (await scene.store.tenants.count_jobs(tenant.id))[1] == by_tenant.get(tenant.id, {})


async def test_counts_follow_whatever_happens_to_jobs(scene: Scene, raw: Raw) -> None:
    chance = random.Random(11)
    tenants = [await scene.tenant(name) for name in ("north", "south")]
    worker, running = await scene.worker(), list[Any]()
    for _ in range(60):
        match chance.randrange(8):
            case 0 | 1:
                await scene.submit(queue=chance.choice(("default", "other")), tenant_id=chance.choice(tenants))
            case 2:
                await scene.submit(delay_seconds=chance.choice((5.0, 50.0)), serial_key=chance.choice((None, "key")))
            case 3:
                await scene.submit(serial_key="key")
            case 4:
                running += await scene.claim(worker, 2, ("default", "other"))
            case 5 if running:
                await scene.finish(running.pop(), chance.choice((BOOM, Done("1"))))
            case 6:
                await scene.clock.advance(seconds=7)
                await scene.store.queue.promote_due(10)
            case 7:
                rows = await raw("select job_id from cortex.queue_entry order by job_id limit 1")
                for (job_id,) in rows:
                    await scene.store.jobs.cancel(JobId(str(job_id)), None, None)
        if chance.randrange(5) == 0:
            await scene.store.queue.fold_counts()
        await check(scene, raw)


async def test_counts_follow_raw_sql_too(scene: Scene, raw: Raw) -> None:
    jobs = [await scene.submit() for _ in range(3)]
    await raw(f"delete from cortex.job where id = '{jobs[0]}'")
    await raw(f"update cortex.queue_entry set state = 'held' where job_id = '{jobs[1]}'")
    await raw(f"update cortex.queue_entry set queue = 'elsewhere' where job_id = '{jobs[2]}'")

    await check(scene, raw)
    assert await scene.store.queue.depths() == {"default": {"held": 1}, "elsewhere": {"ready": 1}}


async def test_what_was_counted_wrongly_is_counted_anew(scene: Scene, raw: Raw) -> None:
    for _ in range(3):
        await scene.submit()
    await raw("delete from cortex.entry_count")
    if raw.kind == "postgres":
        await raw("delete from cortex.entry_count_change")
    assert await scene.store.queue.depths() == {}

    await scene.store.queue.recount()
    await check(scene, raw)
    assert await scene.store.queue.depths() == {"default": {"ready": 3}}


async def test_many_changes_are_folded_by_whoever_reads_them(scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    if raw.kind == "sqlite":
        pytest.skip("one writer counts at once")
    monkeypatch.setattr("cortex_plane.jobs.queue_store.MANY_CHANGES", 10)
    for _ in range(12):
        await scene.submit()
    await scene.store.queue.depths()

    assert await raw("select count(*) from cortex.entry_count_change") == [(0,)]
    assert await scene.store.queue.depths() == {"default": {"ready": 12}}


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_no_two_writers_wait_for_each_other_to_count(scene: Scene, four: Four) -> None:
    """One submits to a queue and does not commit; others submit to it and claim from it meanwhile, and counts are folded."""
    slow, quick, claimer, _ = four
    worker, sample = await scene.worker(), await scene.new_job()
    await slow.begin()
    await slow.submit(replace(sample, id=JobId(new_id())))
    await quick.submit(replace(sample, id=JobId(new_id())))
    assert len(await claimer.claim(worker, 10)) == 1
    await scene.store.queue.fold_counts()
    assert await scene.store.queue.depths() == {}
    await slow.commit()

    assert await scene.store.queue.depths() == {"default": {"ready": 1}}


async def test_a_tenants_count_leaves_out_the_planes_own(scene: Scene) -> None:
    tenant = TenantId("00000000-0000-7000-8000-000000000000")
    await scene.submit("cortex.notify", queue=INTERNAL_QUEUE)
    await scene.submit()

    assert (await scene.store.tenants.count_jobs(tenant))[1] == {"ready": 1}
    assert await scene.store.queue.depths() == {"default": {"ready": 1}, INTERNAL_QUEUE: {"ready": 1}}


async def test_jobs_that_ask_for_approval_are_counted_by_queue(scene: Scene, raw: Raw) -> None:
    asking = [await scene.running(queue=queue) for queue in ("mail", "mail", "mail", "report")]
    for claimed in asking:
        await scene.ask(claimed)
    await scene.store.jobs.cancel(asking[0].job_id, None, None)
    await raw(f"delete from cortex.job where id = '{asking[1].job_id}'")

    for _ in range(2):
        found = (await scene.store.gauges.figures()).approvals
        assert {(waiting.queue, waiting.jobs) for waiting in found} == {("mail", 1), ("report", 1)}
        await scene.store.queue.recount()
