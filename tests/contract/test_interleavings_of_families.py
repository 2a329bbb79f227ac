"""A parent that comes to wait while its child ends: each order is forced on real connections, and nobody is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done, Transition
from cortex_plane.jobs.states import JobStatus
from tests.contract.family_scene import CHILDREN_AGENT, Family, suspended
from tests.contract.sessions import Four, Session
from tests.contract.support import Raw, RawPostgres, Scene, ended, snapshot

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def family(scene: Scene) -> Family:
    await scene.agent(CHILDREN_AGENT)
    return Family(scene)


async def pair(family: Family) -> tuple[Claimed, Claimed]:
    """A parent and its child, and both run."""
    parent = await family.scene.running()
    return parent, await family.child_of(parent.job_id)


async def at_once(session: Session, *transitions: Transition) -> None:
    """It must not wait for anybody."""
    await asyncio.wait_for(session.finish(*transitions), 5)


# -- waking --------------------------------------------------------------------------------------


async def test_a_child_that_ends_while_its_parent_comes_to_wait_waits_and_wakes_it(family: Family, four: Four) -> None:
    parents, childs, *_ = four
    parent, child = await pair(family)
    await parents.begin()
    await parents.finish(suspended(parent, child.job_id))
    ending = asyncio.create_task(childs.finish(ended(child, Done())))
    await childs.waits(ending)
    await parents.commit()

    assert await ending == {child.run_id}
    assert await family.due() == [parent.job_id]


async def test_a_parent_that_comes_to_wait_while_its_child_ends_does_not_wait_and_looks_again(family: Family, four: Four) -> None:
    parents, childs, *_ = four
    parent, child = await pair(family)
    await childs.begin()
    await childs.finish(ended(child, Done()))
    await at_once(parents, suspended(parent, child.job_id))
    await childs.commit()

    assert await family.due() == [parent.job_id]


async def test_a_child_that_ended_before_its_parent_committed_is_not_missed(family: Family, four: Four) -> None:
    """The parent changes first and looks last: an end in between is seen by the look."""
    parents, childs, *_ = four
    parent, child = await pair(family)
    await parents.begin()
    await parents.connection.execute("select 1 from cortex.job where id = $1 for update", parent.job_id)
    await at_once(childs, ended(child, Done()))
    await parents.finish(suspended(parent, child.job_id))
    await parents.commit()

    assert await family.due() == [parent.job_id]


async def test_a_child_whose_end_is_undone_leaves_its_parent_to_look_again(family: Family, four: Four) -> None:
    parents, childs, *_ = four
    parent, child = await pair(family)
    await childs.begin()
    await childs.finish(ended(child, Done()))
    await at_once(parents, suspended(parent, child.job_id))
    await childs.rollback()

    [woken] = await family.scene.claim(await family.scene.worker())
    await family.suspend(woken, child.job_id)
    assert await family.due() == []
    await family.scene.finish(child, Done())
    assert await family.due() == [parent.job_id]


async def test_two_parents_of_each_others_batches_do_not_wait_for_each_other(family: Family, four: Four) -> None:
    """Each batch ends a child of the parent that the other suspends."""
    one, other, *_ = four
    first, first_child = await pair(family)
    second, second_child = await pair(family)
    await one.begin()
    await other.begin()
    await at_once(one, suspended(first, first_child.job_id), ended(second_child, Done()))
    await other.finish(suspended(second, second_child.job_id))
    late = asyncio.create_task(other.finish(ended(first_child, Done())))
    await other.waits(late)
    await one.commit()
    await asyncio.wait_for(late, 5)
    await other.commit()

    assert sorted(await family.due()) == sorted([first.job_id, second.job_id])


async def test_an_end_does_not_wait_for_whoever_holds_the_parents_entry(family: Family, four: Four) -> None:
    holder, childs, *_ = four
    parent, child = await family.waiting()
    await holder.begin()
    await holder.connection.execute("select 1 from cortex.queue_entry where job_id = $1 for update", parent)
    await at_once(childs, ended(child, Done()))
    await holder.commit()

    assert await family.due() == []
    await family.scene.clock.advance(minutes=5)
    assert await family.store.queue.promote_due(10) == 1
    assert await family.due() == [parent]


async def test_an_end_does_not_wait_for_the_lock_of_the_parents_key(family: Family, four: Four) -> None:
    holder, childs, *_ = four
    parent, child = await family.waiting(serial_key="k")
    await holder.begin()
    await holder.connection.execute("select cortex.try_serial_key('00000000-0000-7000-8000-000000000000', 'k')")
    await at_once(childs, ended(child, Done()))
    await holder.rollback()

    await family.store.queue.settle_stuck_keys()
    assert await family.due() == [parent]


async def test_a_save_of_the_child_holds_its_parent_up_for_nothing(family: Family, four: Four) -> None:
    """The parent cannot tell a save from an end: it looks again, and waits then."""
    parents, childs, *_ = four
    parent, child = await pair(family)
    await childs.begin()
    await childs.save(snapshot(child))
    await at_once(parents, suspended(parent, child.job_id))
    await childs.commit()

    [woken] = await family.scene.claim(await family.scene.worker())
    await family.suspend(woken, child.job_id)
    assert await family.due() == []


async def test_a_woken_parent_wakes_a_worker(family: Family, four: Four, raw: Raw) -> None:
    assert isinstance(raw, RawPostgres)
    _, child = await family.waiting()
    heard: asyncio.Queue[str] = asyncio.Queue()
    await raw.connection.add_listener("cortex", lambda *told: heard.put_nowait(str(told[-1])))
    await four[0].finish(ended(child, Done()))

    assert await asyncio.wait_for(heard.get(), 5) == "ready:default"


# -- ending together -----------------------------------------------------------------------------


async def cancel_children(session: Session, parent: JobId) -> int:
    return await session.jobs.cancel_children(parent, None, None)


async def test_a_child_that_is_born_while_its_parent_is_being_cancelled_is_not_forgotten(family: Family, four: Four) -> None:
    canceller, submitter, agent, _ = four
    parent = await family.scene.running()
    await canceller.begin()
    await canceller.cancel(parent.job_id)
    child = await family.scene.new_job(parent_id=parent.job_id, cancel_with_parent=True)
    await asyncio.wait_for(submitter.submit(child), 5)
    assert await family.asked() == [parent.job_id]

    seeing_to_it = asyncio.create_task(cancel_children(agent, parent.job_id))
    await agent.waits(seeing_to_it)
    await canceller.commit()

    assert await seeing_to_it == 1
    assert await family.statuses(child.id) == [JobStatus.CANCELLED]


async def test_a_cancellation_that_was_undone_costs_no_child(family: Family, four: Four) -> None:
    canceller, submitter, agent, _ = four
    parent = await family.scene.running()
    await canceller.begin()
    await canceller.cancel(parent.job_id)
    child = await family.scene.new_job(parent_id=parent.job_id, cancel_with_parent=True)
    await submitter.submit(child)
    seeing_to_it = asyncio.create_task(cancel_children(agent, parent.job_id))
    await agent.waits(seeing_to_it)
    await canceller.rollback()

    assert await seeing_to_it == 0
    assert await family.statuses(child.id) == [JobStatus.PENDING]


async def test_a_parent_that_is_cancelled_while_a_child_is_being_born_waits_and_sees_it(family: Family, four: Four) -> None:
    canceller, submitter, *_ = four
    parent = await family.scene.running()
    child = await family.scene.new_job(parent_id=parent.job_id, cancel_with_parent=True)
    await submitter.begin()
    await submitter.submit(child)
    cancelling = asyncio.create_task(canceller.cancel(parent.job_id))
    await canceller.waits(cancelling)
    await submitter.commit()

    assert await cancelling
    assert await family.asked() == [parent.job_id]


async def test_children_are_cancelled_without_a_deadlock_with_a_claim(family: Family, four: Four) -> None:
    claimer, agent, *_ = four
    parent = await family.scene.running()
    children = [await family.scene.submit(parent_id=parent.job_id, cancel_with_parent=True) for _ in range(3)]
    await family.store.jobs.cancel(parent.job_id, None, None)
    await claimer.begin()
    claimed = await claimer.claim(await family.scene.worker(), 2)
    assert len(claimed) == 2
    seeing_to_it = asyncio.create_task(cancel_children(agent, parent.job_id))
    await agent.waits(seeing_to_it)
    await claimer.commit()

    assert await seeing_to_it == 3
    assert await family.statuses(*children) == [JobStatus.CANCELLED] * 3
