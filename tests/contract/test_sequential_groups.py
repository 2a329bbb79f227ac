"""Sequential groups: one member after the other, whatever delays, keys and retries there are."""

from __future__ import annotations

import pytest

from cortex_plane.groups.model import GroupStatus
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.states import JobStatus
from tests.contract.group_scene import CHAIN, FAILURE, SUCCESS, GroupScene
from tests.contract.support import BOOM, Raw, Scene

pytestmark = pytest.mark.anyio

PENDING, FAILED, CANCELLED = JobStatus.PENDING, JobStatus.FAILED, JobStatus.CANCELLED


@pytest.fixture
def groups(scene: Scene) -> GroupScene:
    return GroupScene(scene)


async def test_a_sequential_group_runs_its_members_one_by_one_in_order(groups: GroupScene) -> None:
    group_id, members = await groups.add(4, mode="sequential")
    assert await groups.held(group_id) == members[1:]

    for member in members:
        [claimed] = await groups.start()
        assert claimed.job_id == member
        assert await groups.start() == []
        await groups.scene.finish(claimed, SUCCESS)
        assert await groups.start() == [], "the next is let go by the group, not by the end of the member"
        await groups.move_on()

    assert (await groups.group(group_id)).status is GroupStatus.COMPLETED


async def test_held_members_are_no_work_that_falls_due(groups: GroupScene, raw: Raw) -> None:
    group_id, members = await groups.add(3, mode="sequential", members=[{}, {"delay_seconds": 60.0}])
    await groups.scene.clock.advance(hours=1)

    assert await groups.store.queue.promote_due(100) == 0
    assert await groups.store.queue.next_due_in() is None
    assert await groups.held(group_id) == members[1:]
    assert await raw("select cast(state as text) from cortex.queue_entry order by 1") == [("held",), ("held",), ("ready",)]


async def test_a_delayed_member_waits_for_its_time_and_its_turn(groups: GroupScene) -> None:
    group_id, [first, delayed, last] = await groups.add(3, mode="sequential", members=[{}, {"delay_seconds": 60.0}])

    assert await groups.end(SUCCESS) == first
    assert await groups.held(group_id) == [last]
    assert await groups.start() == []
    await groups.scene.clock.advance(seconds=61)
    assert await groups.store.queue.promote_due(10) == 1

    assert await groups.end(SUCCESS) == delayed
    assert await groups.end(SUCCESS) == last


async def test_a_delay_that_has_passed_while_it_was_held_costs_nothing_more(groups: GroupScene) -> None:
    _, [_, delayed] = await groups.add(2, mode="sequential", members=[{}, {"delay_seconds": 60.0}])
    await groups.scene.clock.advance(seconds=61)

    await groups.end(SUCCESS)

    assert await groups.end(SUCCESS) == delayed


async def test_a_held_member_does_not_block_others_of_its_serial_key(groups: GroupScene) -> None:
    keyed = {"serial_key": "k"}
    before = await groups.scene.submit(**keyed)
    group_id, [first, second] = await groups.add(2, mode="sequential", members=[{}, {**keyed, "priority": 9}])

    [holder, member] = await groups.start()

    assert [holder.job_id, member.job_id] == [before, first]
    await groups.scene.submit(**keyed)
    await groups.scene.finish(holder, SUCCESS)
    assert len(await groups.start()) == 1
    assert await groups.held(group_id) == [second]


async def test_a_member_that_is_let_go_waits_for_its_serial_key(groups: GroupScene) -> None:
    keyed = {"serial_key": "k"}
    group_id, [_, second] = await groups.add(2, mode="sequential", members=[{}, keyed])
    [first] = await groups.start()
    outside = await groups.scene.submit(**keyed)
    [holder] = await groups.start()
    assert holder.job_id == outside

    await groups.scene.finish(first, SUCCESS)
    await groups.move_on()
    assert (await groups.held(group_id), await groups.start()) == ([], [])
    await groups.scene.finish(holder, SUCCESS)

    assert [one.job_id for one in await groups.start()] == [second]


async def test_members_of_one_serial_key_take_turns_too(groups: GroupScene) -> None:
    _, members = await groups.add(3, mode="sequential", members=[{"serial_key": "k"}] * 3)

    assert [await groups.end(SUCCESS) for _ in members] == members


async def test_a_member_has_not_ended_while_its_chained_retry_has_not(groups: GroupScene) -> None:
    group_id, [first, second] = await groups.add(2, mode="sequential", members=[{"max_retries": 1}])

    await groups.end(BOOM, CHAIN)
    failed = await groups.scene.job(first)
    assert failed.status is FAILED
    assert failed.retried_as is not None
    assert await groups.held(group_id) == [second]
    assert (await groups.group(group_id)).status is GroupStatus.RUNNING
    await groups.scene.clock.advance(seconds=11)
    await groups.store.queue.promote_due(10)
    assert await groups.end(SUCCESS) == failed.retried_as

    assert await groups.end(SUCCESS) == second
    group = await groups.group(group_id)
    assert (group.status, group.tally.completed, group.tally.failed) == (GroupStatus.COMPLETED, 2, 0)


async def test_the_last_failure_of_a_chain_is_the_failure_of_the_member(groups: GroupScene) -> None:
    group_id, [first, second] = await groups.add(2, mode="sequential", members=[{"max_retries": 1}])

    await groups.end(BOOM, CHAIN)
    await groups.scene.clock.advance(seconds=11)
    await groups.store.queue.promote_due(10)
    last = await groups.end(FAILURE)

    assert await groups.statuses([first, last, second]) == [FAILED, FAILED, CANCELLED]
    group = await groups.group(group_id)
    assert (group.tally.failed, group.tally.cancelled) == (1, 1)
    assert (await groups.store.jobs.history(second))[-1].metadata["reason"].endswith(f"job {last} failed")


async def test_an_operators_retry_takes_its_turn_in_a_sequential_group(groups: GroupScene) -> None:
    group_id, [first, second, third] = await groups.add(3, mode="sequential", on_failure="continue")
    await groups.end(FAILURE)
    [running] = await groups.start()
    retry = JobId(new_id())

    await groups.store.jobs.retry(first, retry, "ada")
    assert (running.job_id, await groups.start()) == (second, [])
    assert await groups.held(group_id) == [third, retry]
    await groups.scene.finish(running, SUCCESS)
    await groups.move_on()

    assert [await groups.end(SUCCESS), await groups.end(SUCCESS)] == [third, retry]
    assert (await groups.group(group_id)).status is GroupStatus.COMPLETED
