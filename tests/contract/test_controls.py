"""What operators set, and what a claim makes of it: the gate, pauses, limits and fair shares."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed
from cortex_plane.jobs.outcomes import Done
from cortex_plane.queues import controls
from cortex_plane.queues.model import Scope
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio


def ids(claimed: list[Claimed]) -> list[str]:
    return [one.job_id for one in claimed]


async def close_gate(scene: Scene) -> bool:
    return await controls.pause(scene.store, Scope.GATE, "", actor="ada", reason="a fire")


async def test_nothing_is_claimed_while_the_gate_is_closed_and_all_of_it_afterwards(scene: Scene) -> None:
    jobs = [await scene.submit() for _ in range(3)]
    worker = await scene.worker()
    await close_gate(scene)
    late = await scene.submit()

    assert await scene.claim(worker) == []
    await controls.resume(scene.store, Scope.GATE, "", actor="ada", reason=None)
    assert ids(await scene.claim(worker)) == [*jobs, late]


async def test_a_closed_gate_says_who_when_and_why_and_survives(scene: Scene) -> None:
    await close_gate(scene)
    await scene.clock.advance(minutes=5)
    assert not await controls.pause(scene.store, Scope.GATE, "", actor="bob", reason="again")

    [control] = await scene.store.controls.list()
    assert (control.scope, control.paused_by, control.pause_reason) == (Scope.GATE, "ada", "a fire")
    [record] = await scene.store.audit.list("gate")
    assert (record.entry.action, record.entry.actor, record.entry.reason) == ("GATE_CLOSED", "ada", "a fire")
    assert control.paused_at == record.at


async def test_opening_a_gate_that_is_open_changes_and_records_nothing(scene: Scene) -> None:
    assert not await controls.resume(scene.store, Scope.GATE, "", actor="ada", reason=None)
    assert await scene.store.controls.list() == []
    assert await scene.store.audit.list("gate") == []


async def test_the_planes_own_work_goes_on_behind_a_closed_gate(scene: Scene) -> None:
    await scene.agent("cortex.echo")
    own = await scene.submit("cortex.echo", queue=INTERNAL_QUEUE)
    await scene.submit()
    await close_gate(scene)

    queues, agents = ("default", INTERNAL_QUEUE), ("echo", "cortex.echo")
    assert ids(await scene.claim(await scene.worker(), 10, queues, agents)) == [own]


async def test_the_planes_own_queue_cannot_be_paused(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="the plane's own"):
        await controls.pause(scene.store, Scope.QUEUE, INTERNAL_QUEUE, actor=None, reason=None)


async def test_a_paused_queue_agent_or_tenant_stands_still_and_all_others_go_on(scene: Scene) -> None:
    tenant = await scene.tenant("acme")
    await scene.agent("other")
    paused = {
        Scope.QUEUE: await scene.submit(queue="slow"),
        Scope.AGENT: await scene.submit("other"),
        Scope.TENANT: await scene.submit(tenant_id=tenant),
    }
    free = await scene.submit()
    worker = await scene.worker()
    for scope, name in ((Scope.QUEUE, "slow"), (Scope.AGENT, "other"), (Scope.TENANT, tenant)):
        await controls.pause(scene.store, scope, name, actor="ada", reason=None)
    born_paused = await scene.submit(tenant_id=tenant)

    queues, agents = ("default", "slow"), ("echo", "other")
    assert ids(await scene.claim(worker, 10, queues, agents)) == [free]
    for scope, name in ((Scope.QUEUE, "slow"), (Scope.AGENT, "other"), (Scope.TENANT, tenant)):
        await controls.resume(scene.store, scope, name, actor="ada", reason=None)
    assert ids(await scene.claim(worker, 10, queues, agents)) == [*paused.values(), born_paused]


async def test_a_paused_tenant_at_the_head_does_not_hide_those_behind(scene: Scene) -> None:
    tenant = await scene.tenant("acme")
    for _ in range(30):
        await scene.submit(tenant_id=tenant)
    mine = await scene.submit()
    await controls.pause(scene.store, Scope.TENANT, tenant, actor="ada", reason=None)

    assert ids(await scene.claim(await scene.worker(), 2)) == [mine]


@pytest.mark.parametrize("scope", [Scope.QUEUE, Scope.AGENT, Scope.TENANT])
async def test_a_limit_is_kept_and_freed_by_each_end(scene: Scene, scope: Scope) -> None:
    tenant = await scene.tenant("acme")
    jobs = [await scene.submit(tenant_id=tenant) for _ in range(5)]
    await scene.agent("other")
    other = await scene.submit("other", queue="wide")
    name = {Scope.QUEUE: "default", Scope.AGENT: "echo", Scope.TENANT: tenant}[scope]
    await controls.limit(scene.store, scope, name, 2, actor="ada")
    worker = await scene.worker()
    queues, agents = ("default", "wide"), ("echo", "other")

    first = await scene.claim(worker, 10, queues, agents)
    assert ids(first) == [*jobs[:2], other]
    assert await scene.claim(worker, 10, queues, agents) == []
    await scene.finish(first[0], Done("1"))
    assert ids(await scene.claim(worker, 10, queues, agents)) == [jobs[2]]
    await controls.limit(scene.store, scope, name, None, actor="ada")
    assert ids(await scene.claim(worker, 10, queues, agents)) == jobs[3:]


async def test_a_limit_frees_itself_when_the_worker_dies(scene: Scene) -> None:
    jobs = [await scene.submit() for _ in range(2)]
    await controls.limit(scene.store, Scope.QUEUE, "default", 1, actor="ada")
    dead = await scene.worker()
    [lost] = await scene.claim(dead)
    await scene.store.workers.give_up(dead)
    await scene.rescue()

    assert ids(await scene.claim(await scene.worker())) == [lost.job_id] == jobs[:1]


@pytest.mark.parametrize("max_running", [0, -1, True, 2.5, "3", 1_000_001])
async def test_a_limit_that_is_none_is_refused(scene: Scene, max_running: object) -> None:
    with pytest.raises(InvalidInput, match="max_running must be a whole number from 1"):
        await controls.limit(scene.store, Scope.QUEUE, "default", max_running, actor=None)  # type: ignore[arg-type]
    assert await scene.store.controls.list() == []


async def test_tenants_of_a_fair_queue_take_turns(scene: Scene) -> None:
    await controls.share_fairly(scene.store, "default", True, actor="ada")
    loud, quiet = await scene.tenant("loud"), await scene.tenant("quiet")
    many = [await scene.submit(tenant_id=loud) for _ in range(40)]
    few = [await scene.submit(tenant_id=quiet) for _ in range(3)]
    worker = await scene.worker()

    one_by_one = [ids(await scene.claim(worker, 1))[0] for _ in range(8)]
    assert [job for job in one_by_one if job in few] == few
    assert [job for job in one_by_one if job in many] == many[:5]
    assert one_by_one.index(few[0]) <= 1


async def test_a_late_tenant_of_a_fair_queue_waits_for_one_turn_only_and_gets_no_arrears(scene: Scene) -> None:
    await controls.share_fairly(scene.store, "default", True, actor="ada")
    loud, late = await scene.tenant("loud"), await scene.tenant("late")
    for _ in range(60):
        await scene.submit(tenant_id=loud)
    worker = await scene.worker()
    await scene.claim(worker, 30)
    jobs = [await scene.submit(tenant_id=late) for _ in range(10)]

    claimed = ids(await scene.claim(worker, 10))
    assert claimed.index(jobs[0]) <= 1
    assert 4 <= sum(job in jobs for job in claimed) <= 6


async def test_with_one_tenant_a_fair_queue_has_the_same_order_as_any(scene: Scene) -> None:
    await controls.share_fairly(scene.store, "default", True, actor="ada")
    jobs = [await scene.submit(priority=priority) for priority in (0, 5, 0, 9)]

    claimed = await scene.claim(await scene.worker())
    assert ids(claimed) == [jobs[3], jobs[1], jobs[0], jobs[2]]


async def test_a_control_that_says_nothing_leaves_no_trace_in_the_way_of_a_claim(scene: Scene) -> None:
    tenant = await scene.tenant("acme")
    await controls.pause(scene.store, Scope.TENANT, tenant, actor="ada", reason=None)
    job = await scene.submit(tenant_id=tenant)
    await controls.resume(scene.store, Scope.TENANT, tenant, actor="ada", reason=None)

    assert await scene.store.controls.list() == []
    assert ids(await scene.claim(await scene.worker())) == [job]


async def test_closing_the_gate_waits_for_claims_under_way_and_none_begins_afterwards(scene: Scene) -> None:
    for _ in range(200):
        await scene.submit()
    workers = [await scene.worker() for _ in range(8)]
    closed = False
    after: list[int] = []

    async def claim_on(worker: str) -> None:
        for _ in range(10):
            began_after = closed
            count = len(await scene.claim(worker, 2))  # type: ignore[arg-type]
            if began_after:
                after.append(count)

    async def close() -> None:
        nonlocal closed
        await close_gate(scene)
        closed = True

    await asyncio.gather(*(claim_on(worker) for worker in workers), close())
    assert after
    assert sum(after) == 0
