"""Members that end while their group is looked at: each order is forced on real connections."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.groups.model import GROUP_AGENT, GroupStatus
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed, JobId
from tests.contract.group_scene import CHAIN, FAILURE, SUCCESS, GroupScene
from tests.contract.sessions import Four, Session
from tests.contract.support import BOOM, Scene, ended, run_ids

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def groups(scene: Scene) -> GroupScene:
    return GroupScene(scene)


async def look(session: Session, groups: GroupScene) -> list[Claimed]:
    return await session.queue.claim(await groups.scene.worker(), [INTERNAL_QUEUE], [GROUP_AGENT], run_ids(5))


async def test_a_look_that_is_due_is_not_taken_before_the_member_that_relies_on_it_has_ended(
    groups: GroupScene, four: Four
) -> None:
    finisher, claimer, *_ = four
    group_id, _ = await groups.add(2, with_callback=True)
    [first, second] = await groups.start()
    await groups.scene.finish(first, SUCCESS)
    await finisher.begin()
    await finisher.finish(ended(second, SUCCESS))

    assert await look(claimer, groups) == [], "it would see the second member still running, and nobody would look again"
    await finisher.commit()

    await groups.move_on()
    assert (await groups.group(group_id)).status is GroupStatus.COMPLETED
    assert len(await groups.store.jobs.list(queue="calls")) == 1


async def test_a_member_that_ends_while_the_look_is_being_claimed_asks_for_another(groups: GroupScene, four: Four) -> None:
    finisher, claimer, *_ = four
    group_id, _ = await groups.add(2)
    [first, second] = await groups.start()
    await groups.scene.finish(first, SUCCESS)
    await claimer.begin()
    [claimed] = await look(claimer, groups)
    await finisher.finish(ended(second, SUCCESS))
    await claimer.commit()

    await groups.scene.finish(claimed, SUCCESS)  # It looked too early, and did nothing.
    assert (await groups.group(group_id)).finished_at is None
    assert await groups.move_on() == 1
    assert (await groups.group(group_id)).finished_at is not None


async def test_two_members_that_end_at_once_wait_for_no_one_and_both_are_seen(groups: GroupScene, four: Four) -> None:
    one, other, *_ = four
    group_id, _ = await groups.add(2)
    [first, second] = await groups.start()
    await one.begin()
    await one.finish(ended(first, SUCCESS))
    await asyncio.wait_for(other.finish(ended(second, SUCCESS)), 5)
    await one.commit()

    assert await groups.move_on() == 2
    assert (await groups.group(group_id)).tally.completed == 2


async def test_an_end_waits_for_no_one_while_its_group_is_looked_at(groups: GroupScene, four: Four) -> None:
    looker, finisher, *_ = four
    group_id, _ = await groups.add(2)
    [first, second] = await groups.start()
    await groups.scene.finish(first, FAILURE)
    await looker.begin()
    await looker.write("groups/lock", id=group_id)

    assert await asyncio.wait_for(finisher.finish(ended(second, SUCCESS)), 5) == {second.run_id}
    await looker.commit()

    await groups.move_on()
    assert (await groups.group(group_id)).tally.completed == 1


async def test_a_chained_retry_waits_for_no_one_while_its_group_is_looked_at(groups: GroupScene, four: Four) -> None:
    looker, finisher, *_ = four
    group_id, [_, second] = await groups.add(2, mode="sequential", members=[{"max_retries": 1}])
    [first] = await groups.start()
    await looker.begin()
    await looker.write("groups/lock", id=group_id)

    assert await asyncio.wait_for(finisher.finish(ended(first, BOOM, CHAIN)), 5) == {first.run_id}
    await looker.commit()

    await groups.move_on()
    assert await groups.held(group_id) == [second]


async def test_a_retry_and_the_next_member_of_a_sequential_group_never_begin_together(groups: GroupScene, four: Four) -> None:
    looker, retrier, *_ = four
    group_id, [first, second] = await groups.add(2, mode="sequential", on_failure="continue")
    [claimed] = await groups.start()
    await groups.scene.finish(claimed, FAILURE)
    await looker.begin()
    await looker.write("groups/lock", id=group_id)
    await looker.write("groups/let_go", job_id=second)
    retry = asyncio.create_task(retrier.jobs.retry(first, JobId(new_id()), "ada"))
    await retrier.waits(retry)
    await looker.commit()

    assert await retry
    assert [one.job_id for one in await groups.start()] == [second]
