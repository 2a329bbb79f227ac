"""When a member of a group fails for good, what has not begun does not begin: not even before anybody has looked at the group."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.changes import retry_job
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.queues import controls
from cortex_plane.queues.model import Scope
from tests.contract.group_scene import CHAIN, FAILURE, GroupScene
from tests.contract.support import BOOM, Scene, run_ids

pytestmark = pytest.mark.anyio


@pytest.fixture
def groups(scene: Scene) -> GroupScene:
    return GroupScene(scene)


@pytest.mark.parametrize("on_failure", ["stop", "skip"])
@pytest.mark.parametrize("steered", [False, True])
async def test_after_a_failure_no_claim_begins_another_member(groups: GroupScene, on_failure: Any, steered: bool) -> None:
    group_id, members = await groups.add(30, on_failure=on_failure)
    if steered:
        await controls.limit(groups.store, Scope.QUEUE, "default", 100, actor=None)
    [first] = await groups.start(limit=1)
    await groups.scene.finish(first, FAILURE)
    other = await groups.scene.submit()

    claimed = await groups.start(limit=10)
    await groups.move_on()

    assert [one.job_id for one in claimed] == [other]  # Though all the members stand before it.
    assert await groups.statuses(members) == [JobStatus.FAILED, *[JobStatus.CANCELLED] * 29]
    assert (await groups.group(group_id)).finished_at is not None


async def test_a_failure_stops_nothing_where_the_others_are_to_continue(groups: GroupScene) -> None:
    _, members = await groups.add(3, on_failure="continue")
    [first] = await groups.start(limit=1)
    await groups.scene.finish(first, FAILURE)

    assert [one.job_id for one in await groups.start()] == members[1:]


async def test_a_failure_that_is_retried_stops_nothing(groups: GroupScene) -> None:
    _, members = await groups.add(2)
    [first] = await groups.start(limit=1)
    await groups.scene.finish(first, BOOM, CHAIN)

    assert [one.job_id for one in await groups.start()] == [members[1]]


async def test_members_that_have_begun_go_on_when_others_are_skipped(groups: GroupScene) -> None:
    _, [fails, begun, _] = await groups.add(3, on_failure="skip")
    [failing, beginning] = await groups.start(limit=2)
    await groups.scene.finish(beginning, BOOM)  # It is tried again.
    await groups.scene.finish(failing, FAILURE)
    await groups.scene.clock.advance(seconds=3600)
    await groups.store.queue.promote_due(10)

    [again] = await groups.start()

    assert (failing.job_id, again.job_id) == (fails, begun)


async def test_members_that_are_retried_by_hand_begin_in_a_group_that_was_stopped(groups: GroupScene) -> None:
    _, [fails, _] = await groups.add(2)
    [first] = await groups.start(limit=1)
    await groups.scene.finish(first, FAILURE)
    await groups.move_on()

    again = await retry_job(groups.store, new_id, fails)

    assert [one.job_id for one in await groups.start()] == [again]


async def test_a_group_whose_failed_member_was_retried_before_it_was_looked_at_goes_on(groups: GroupScene) -> None:
    _, [fails, waits] = await groups.add(2)
    [first] = await groups.start(limit=1)
    await groups.scene.finish(first, FAILURE)

    again = await retry_job(groups.store, new_id, fails)
    before = [one.job_id for one in await groups.start(limit=1)]
    await groups.move_on()
    after = [one.job_id for one in await groups.start()]

    assert before == [again]
    assert after == [waits]


@pytest.mark.parametrize("steered", [False, True])
async def test_members_are_claimed_for_free_slots_only(groups: GroupScene, steered: bool) -> None:
    _, members = await groups.add(3)
    others = [await groups.scene.submit() for _ in range(2)]
    if steered:
        await controls.limit(groups.store, Scope.QUEUE, "default", 100, actor=None)
    worker = await groups.scene.worker()

    claimed = await groups.store.queue.claim(worker, ("default",), ("echo",), run_ids(5), 1)
    for one in claimed:
        await groups.scene.finish(one, Done(None))
    left = await groups.start()

    assert [one.job_id for one in claimed] == [members[0], *others]
    assert [one.job_id for one in left] == members[1:]
