"""One row that another transaction has locked delays itself alone: not a claim, a heartbeat, an end, a rescue or a sweep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cortex_plane.approvals import expiry
from cortex_plane.approvals import expiry as expire_approvals
from cortex_plane.approvals.deadlines import Deadlines
from cortex_plane.approvals.model import Approvers
from cortex_plane.approvals.store import ApprovalStore
from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import Contended
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.queues.model import Control, Scope
from cortex_plane.storage.database import Database
from cortex_plane.storage.postgres.database import PostgresDatabase
from cortex_plane.worker.rescue import deliver_batch
from tests.contract.approval_scene import Desk
from tests.contract.sessions import Four, Session, batch
from tests.contract.support import Scene, ended, snapshot

pytestmark = pytest.mark.anyio

SOON_SECONDS = 5.0
ENTRY = AuditEntry("CONTROL_CHANGED", "queue", "other", actor="test")


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


@asynccontextmanager
async def locked(session: Session, table: str, where: str) -> AsyncIterator[None]:
    """As a person does who looks at a row with `for update` and goes to lunch."""
    await session.begin()
    assert await session.connection.fetch(f"select 1 from cortex.{table} where {where} for update")
    try:
        yield
    finally:
        await session.rollback()


def one(claimed: list[Claimed]) -> list[JobId]:
    return [each.job_id for each in claimed]


# -- claims --------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["job", "queue_entry"])
@pytest.mark.parametrize("steered", [False, True])
@pytest.mark.parametrize("limit", [1, 10])
async def test_a_claim_passes_over_a_locked_job(scene: Scene, four: Four, table: str, steered: bool, limit: int) -> None:
    person, claimer, heart, _ = four
    if steered:
        await claimer.connection.execute("insert into cortex.control (scope, name, max_running) values ('queue', 'default', 100)")
    jobs = [await scene.submit() for _ in range(3)]
    worker = await scene.worker()
    column = "id" if table == "job" else "job_id"
    async with locked(person, table, f"{column} = '{jobs[0]}'"):
        claimed = await asyncio.wait_for(claimer.claim(worker, limit), SOON_SECONDS)
        assert one(claimed) == jobs[1 : 1 + limit]
        assert await asyncio.wait_for(heart.beat(worker), SOON_SECONDS)

    assert one(await claimer.claim(worker, 1)) == jobs[:1]


async def test_a_locked_job_at_the_head_of_a_fair_queue_stops_nobody(scene: Scene, four: Four) -> None:
    person, claimer, *_ = four
    await claimer.connection.execute("insert into cortex.control (scope, name, fair_share) values ('queue', 'default', true)")
    ann, ben = await scene.tenant("ann"), await scene.tenant("ben")
    first, second, third = [await scene.submit(tenant_id=tenant) for tenant in (ann, ben, ann)]
    worker = await scene.worker()
    async with locked(person, "job", f"id = '{first}'"):
        claimed = [*await claimer.claim(worker, 1), *await claimer.claim(worker, 1)]

    assert sorted(one(claimed)) == sorted([second, third])


async def test_a_locked_turn_of_a_fair_queue_stops_nobody(scene: Scene, four: Four) -> None:
    person, claimer, *_ = four
    await claimer.connection.execute("insert into cortex.control (scope, name, fair_share) values ('queue', 'default', true)")
    ann, ben = await scene.tenant("ann"), await scene.tenant("ben")
    jobs = [await scene.submit(tenant_id=tenant) for tenant in (ann, ben, ann, ben)]
    worker = await scene.worker()
    first = await claimer.claim(worker, 1)
    async with locked(person, "fair_turn", "true"):
        second = await asyncio.wait_for(claimer.claim(worker, 1), SOON_SECONDS)
    third = await claimer.claim(worker, 2)

    assert sorted(one([*first, *second, *third])) == sorted(jobs)


@pytest.mark.parametrize("steered", ["max_running", "fair_share", None])
async def test_a_small_claim_passes_over_many_locked_jobs(scene: Scene, four: Four, steered: str | None) -> None:
    person, claimer, *_ = four
    if steered is not None:
        value = {"max_running": "2", "fair_share": "true"}[steered]
        await claimer.connection.execute(
            f"insert into cortex.control (scope, name, {steered}) values ('queue', 'default', {value})"
        )
    tenants = [await scene.tenant(f"tenant {number}") for number in range(3)]
    for number in range(600):
        await scene.submit(tenant_id=tenants[number % 3])
    worker = await scene.worker()
    async with locked(person, "job", "status = 'PENDING'"):
        free = [await scene.submit(tenant_id=tenants[number]) for number in range(3)]
        claimed = await asyncio.wait_for(claimer.claim(worker, 1), SOON_SECONDS)

    assert one(claimed)[0] in free


async def test_three_workers_claim_under_a_control_while_a_job_is_locked(scene: Scene, four: Four) -> None:
    person, *claimers = four
    await claimers[0].connection.execute("insert into cortex.control (scope, name, max_running) values ('agent', 'echo', 100)")
    jobs = [await scene.submit() for _ in range(10)]
    workers = [await scene.worker() for _ in claimers]
    async with locked(person, "job", f"id = '{jobs[0]}'"):
        claims = [claimer.claim(worker, 3) for claimer, worker in zip(claimers, workers, strict=True)]
        taken = await asyncio.wait_for(asyncio.gather(*claims), SOON_SECONDS)

    assert sorted(job_id for claimed in taken for job_id in one(claimed)) == sorted(jobs[1:])


@pytest.mark.parametrize("lock", [0, 1])
async def test_a_claim_that_waits_too_long_for_another_comes_back_empty_and_is_woken(scene: Scene, four: Four, lock: int) -> None:
    """Lock 0 is held by whoever changes a control, lock 1 by a claim under a limit. Neither refuses a claim with an error."""
    other, claimer, listener, _ = four
    await claimer.connection.execute("insert into cortex.control (scope, name, max_running) values ('queue', 'default', 1)")
    job = await scene.submit()
    worker = await scene.worker()
    heard = asyncio.Event()
    await listener.connection.add_listener("cortex", lambda *told: heard.set() if told[-1] == "ready:default" else None)
    await other.begin()
    await other.connection.execute(f"select pg_advisory_xact_lock(1129270868, {lock})")

    assert await asyncio.wait_for(claimer.claim(worker, 1), 2 * SOON_SECONDS) == []
    await asyncio.wait_for(heard.wait(), SOON_SECONDS)
    await other.rollback()

    assert one(await claimer.claim(worker, 1)) == [job]


# -- ends and checkpoints ------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["job", "job_run"])
async def test_of_a_batch_that_ends_only_the_locked_job_waits(scene: Scene, four: Four, table: str) -> None:
    person, *_ = four
    _, claimed = await batch(scene, 30)
    column = "id" if table == "job" else "job_id"
    transitions = [ended(each, Done("1")) for each in claimed]
    async with locked(person, table, f"{column} = '{claimed[7].job_id}'"):
        answers = await asyncio.wait_for(
            deliver_batch(scene.store, transitions, lambda some: scene.store.queue.finish(some, "test")), 4 * SOON_SECONDS
        )

    assert isinstance(answers.pop(claimed[7].run_id), Contended)
    assert set(answers.values()) == {True}
    assert await scene.status(claimed[7].job_id) is JobStatus.RUNNING


async def test_of_a_batch_of_checkpoints_only_the_locked_one_waits(scene: Scene, four: Four) -> None:
    person, *_ = four
    _, claimed = await batch(scene, 30)
    async with locked(person, "job", f"id = '{claimed[7].job_id}'"):
        answers = await asyncio.wait_for(
            deliver_batch(scene.store, [snapshot(each) for each in claimed], scene.store.checkpoints.save), SOON_SECONDS
        )
        with pytest.raises(Contended):
            await asyncio.wait_for(scene.store.checkpoints.save([snapshot(claimed[7])]), SOON_SECONDS)

    assert isinstance(answers.pop(claimed[7].run_id), Contended)
    assert set(answers.values()) == {True}


async def test_a_locked_total_of_costs_delays_no_end(scene: Scene, four: Four) -> None:
    person, *_ = four
    _, claimed = await batch(scene, 3)
    first, *others = [ended(each, Done("1"))._replace(cost_cents=7) for each in claimed]
    assert await scene.store.queue.finish([first], "test")
    async with locked(person, "cost_total", "true"):
        answers = await asyncio.wait_for(scene.store.queue.finish(others, "test"), SOON_SECONDS)

    assert answers == {each.run_id for each in others}
    assert [total.cents for total in await scene.store.costs.totals()] == [21]


# -- rescue --------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["job", "job_run"])
async def test_a_locked_job_of_a_dead_worker_delays_only_its_own_rescue(scene: Scene, four: Four, table: str) -> None:
    person, *_ = four
    worker, claimed = await batch(scene, 8)
    await scene.store.workers.give_up(worker)
    column = "id" if table == "job" else "job_id"
    async with locked(person, table, f"{column} = '{claimed[3].job_id}'"):
        assert await asyncio.wait_for(scene.rescue(), 4 * SOON_SECONDS) == 7

    assert await scene.rescue() == 1


async def test_a_locked_row_of_a_silent_worker_delays_no_other_judgement(scene: Scene, four: Four) -> None:
    person, rescuer, *_ = four
    first, second = await scene.worker(lease_seconds=1), await scene.worker(lease_seconds=1)
    me = await scene.worker(lease_seconds=1000)
    await scene.clock.advance(seconds=2)
    async with locked(person, "worker", f"id = '{first}'"):
        assert await asyncio.wait_for(rescuer.declare_lost(me), SOON_SECONDS) == [second]
        await asyncio.wait_for(scene.store.workers.close_lost(), SOON_SECONDS)

    assert await rescuer.declare_lost(me) == [first]


async def test_a_worker_whose_own_row_is_locked_keeps_its_lease(scene: Scene, four: Four) -> None:
    person, heart, rescuer, _ = four
    worker, me = await scene.worker(lease_seconds=10), await scene.worker(lease_seconds=1000)
    async with locked(person, "worker", f"id = '{worker}'"):
        for _ in range(3):
            await scene.clock.advance(seconds=8)
            assert await asyncio.wait_for(heart.beat(worker), SOON_SECONDS)
    await scene.clock.advance(seconds=8)
    assert await rescuer.declare_lost(me) == []
    assert await heart.beat(worker)
    await scene.clock.advance(seconds=11)

    assert await rescuer.declare_lost(me) == [worker]
    assert not await heart.beat(worker)


async def test_a_locked_row_of_a_worker_holds_up_neither_its_leaving_nor_whoever_gives_it_up(scene: Scene, four: Four) -> None:
    person, *_ = four
    worker = await scene.worker()
    async with locked(person, "worker", f"id = '{worker}'"), asyncio.timeout(SOON_SECONDS):
        assert not await scene.store.workers.give_up(worker)
        assert not await scene.store.workers.leave(worker)

    assert await scene.store.workers.leave(worker)


async def test_a_worker_whose_own_row_is_locked_says_soon_whether_it_has_room(scene: Scene, four: Four) -> None:
    """It does so between two claims."""
    person, *_ = four
    worker, other = await scene.worker(), await scene.worker()
    async with locked(person, "worker", f"id = '{worker}'"):
        assert not await asyncio.wait_for(scene.store.workers.tell_room(worker, True), SOON_SECONDS)

    assert await scene.store.workers.with_room(other) == []
    assert await scene.store.workers.tell_room(worker, True)
    assert len(await scene.store.workers.with_room(other)) == 1


# -- sweeps --------------------------------------------------------------------------------------


async def test_a_locked_entry_that_is_due_delays_only_itself(scene: Scene, four: Four) -> None:
    person, *_ = four
    jobs = [await scene.submit(delay_seconds=1.0) for _ in range(3)]
    await scene.clock.advance(seconds=2)
    async with locked(person, "queue_entry", f"job_id = '{jobs[0]}'"):
        assert await asyncio.wait_for(scene.store.queue.promote_due(100), SOON_SECONDS) == 2

    assert await scene.store.queue.promote_due(100) == 1


async def test_a_locked_job_delays_the_end_of_no_other_approval(scene: Scene, four: Four, desk: Desk) -> None:
    person, *_ = four
    ann = await desk.user("ann", "approver")
    first, second = await desk.asked(ann, ttl_seconds=60), await desk.asked(ann, ttl_seconds=60)
    await scene.clock.advance(seconds=61)
    async with locked(person, "job", f"id = '{first.job_id}'"):
        assert await asyncio.wait_for(scene.store.approvals.expire(10), SOON_SECONDS) == 1

    assert await scene.status(second.job_id) is JobStatus.FAILED
    assert await scene.store.approvals.expire(10) == 1


@pytest.mark.parametrize("table", ["job", "approval_request"])
async def test_more_locked_jobs_than_a_batch_stop_no_expiry_reminder_or_escalation(
    scene: Scene, four: Four, desk: Desk, table: str
) -> None:
    person, *_ = four
    await desk.with_notifier()
    ann, ben = await desk.user("ann", "approver"), await desk.user("ben", "approver")
    waits = {"remind_after_seconds": 100.0, "escalate_after_seconds": 150.0, "escalate_to": Approvers((ben.id,))}
    locked_ones = [await desk.asked(ann, ttl_seconds=60) for _ in range(expire_approvals.BATCH + 1)]
    locked_ones += [await desk.asked(ann, **waits) for _ in range(expiry.BATCH + 1)]
    brief, chased = await desk.asked(ann, ttl_seconds=61), await desk.asked(ann, **waits)
    await scene.clock.advance(seconds=160)
    ids = ", ".join(f"'{one.job_id if table == 'job' else one.id}'" for one in locked_ones)
    async with locked(person, table, f"id in ({ids})"):
        deadlines = Deadlines(scene.store)
        async with asyncio.timeout(2 * SOON_SECONDS):
            while await deadlines.act():
                pass

    assert await scene.status(brief.job_id) is JobStatus.FAILED
    stored = await desk.stored(chased)
    assert (stored.reminders, stored.escalated_at is not None) == (1, True)
    assert {purpose for purpose, _ in await desk.told(chased)} == {"ask", "remind", "escalate"}


async def test_telling_of_a_locked_request_gives_way_soon(scene: Scene, four: Four, desk: Desk) -> None:
    """It would hold one of the worker's few slots for the plane's own work for half a minute, before anything is sent."""
    person, *_ = four
    ann = await desk.user("ann", "approver")
    request = await desk.asked(ann)
    await desk.link(ann, "email", "ann@x")
    async with locked(person, "approval_request", f"id = '{request.id}'"):
        with pytest.raises(Contended):
            await asyncio.wait_for(scene.store.approvals.put_token(request.id, ann.id, "email", "ann@x", "0" * 64), SOON_SECONDS)

    assert await scene.store.approvals.put_token(request.id, ann.id, "email", "ann@x", "0" * 64)


async def test_a_locked_job_is_waited_for_only_briefly_behind_a_pooler(
    scene: Scene, four: Four, desk: Desk, database_url: str
) -> None:
    """There is no setting of the session there: each transaction brings its own."""
    person, *_ = four
    ann = await desk.user("ann", "approver")
    request = await desk.asked(ann, ttl_seconds=60)
    database: Any = Database(lambda: PostgresDatabase(database_url))
    await database.open(prepare=False)
    database.session._prepare = False
    try:
        async with locked(person, "job", f"id = '{request.job_id}'"):
            with pytest.raises(Contended):
                await asyncio.wait_for(ApprovalStore(database, new_id)._expire(request.id), SOON_SECONDS)
    finally:
        await database.close()


async def test_setting_a_control_gives_way_to_a_claim_that_hangs(scene: Scene, four: Four) -> None:
    """While somebody waits for the lock that claims share, no other claim begins: so nobody waits for it long."""
    hanging, claimer, *_ = four
    await scene.submit()
    await scene.submit()
    worker = await scene.worker()
    await hanging.begin()
    await hanging.claim(worker, 1)
    paused = asyncio.create_task(
        scene.store.controls.change(Scope.QUEUE, "other", lambda now: Control(now.scope, now.name, max_running=1), ENTRY)
    )

    assert len(await asyncio.wait_for(claimer.claim(worker, 1), SOON_SECONDS)) == 1
    await hanging.commit()
    assert await asyncio.wait_for(paused, SOON_SECONDS)
