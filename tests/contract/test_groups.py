"""Groups: members that take turns or run together, what a failure does to the others, and one callback at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_plane.groups.model import GroupId, GroupStatus, NewGroup
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE, JobId
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.worker.rescue import rescue_runs
from tests.contract.group_scene import CHAIN, FAILURE, SUCCESS, GroupScene
from tests.contract.support import BOOM, Raw, Refused, Scene, into

pytestmark = pytest.mark.anyio

PENDING, RUNNING, COMPLETED, FAILED, CANCELLED = (
    JobStatus.PENDING,
    JobStatus.RUNNING,
    JobStatus.COMPLETED,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
)


@pytest.fixture
def groups(scene: Scene) -> GroupScene:
    return GroupScene(scene)


# -- what a failure does, in every mode ----------------------------------------------------------


@pytest.mark.parametrize(
    ("on_failure", "others", "runs"),
    [
        ("stop", [CANCELLED, CANCELLED], [[RunStatus.CANCELLED], []]),
        ("skip", [RUNNING, CANCELLED], [[RunStatus.RUNNING], [RunStatus.SKIPPED]]),
        ("continue", [RUNNING, PENDING], [[RunStatus.RUNNING], []]),
    ],
)
async def test_a_failure_in_a_parallel_group(groups: GroupScene, on_failure: Any, others: Any, runs: Any) -> None:
    group_id, [fails, runs_on, waits] = await groups.add(3, on_failure=on_failure)
    started = await groups.start(limit=2)
    assert [one.job_id for one in started] == [fails, runs_on]

    await groups.scene.finish(started[0], FAILURE)
    await groups.move_on()

    assert await groups.statuses([fails, runs_on, waits]) == [FAILED, *others]
    assert [[run.status for run in await groups.store.jobs.runs(job_id)] for job_id in (runs_on, waits)] == runs
    assert (await groups.group(group_id)).stopping == (on_failure != "continue")


@pytest.mark.parametrize(
    ("on_failure", "others", "status"),
    [
        ("stop", [CANCELLED, CANCELLED], GroupStatus.FAILED),
        ("skip", [CANCELLED, CANCELLED], GroupStatus.FAILED),
        ("continue", [PENDING, PENDING], GroupStatus.RUNNING),
    ],
)
async def test_a_failure_in_a_sequential_group(groups: GroupScene, on_failure: Any, others: Any, status: GroupStatus) -> None:
    group_id, members = await groups.add(3, mode="sequential", on_failure=on_failure)

    assert await groups.end(FAILURE) == members[0]

    assert await groups.statuses(members) == [FAILED, *others]
    assert (await groups.group(group_id)).status is status
    assert await groups.held(group_id) == ([members[2]] if on_failure == "continue" else [])


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("on_failure", ["stop", "skip", "continue"])
async def test_without_a_failure_every_member_completes(groups: GroupScene, mode: Any, on_failure: Any) -> None:
    group_id, members = await groups.add(3, mode=mode, on_failure=on_failure)

    while started := await groups.start():
        for claimed in started:
            await groups.scene.finish(claimed, SUCCESS)
        await groups.move_on()

    group = await groups.group(group_id)
    assert (group.status, group.tally.completed, group.stopping) == (GroupStatus.COMPLETED, 3, False)
    assert group.finished_at == groups.scene.now
    assert await groups.statuses(members) == [COMPLETED] * 3


async def test_those_who_are_stopped_say_why(groups: GroupScene) -> None:
    group_id, [fails, other] = await groups.add(2)
    [first, _] = await groups.start()

    await groups.scene.finish(first, FAILURE)
    await groups.move_on()

    last = (await groups.store.jobs.history(other))[-1]
    assert (last.new_status, last.cause, last.actor) == (CANCELLED, "group", "group")
    assert last.metadata == {"reason": f"group {group_id} stopped after job {fails} failed"}


async def test_a_skipped_member_has_a_run_that_counts_no_attempt(groups: GroupScene) -> None:
    _, [fails, skipped] = await groups.add(
        2, mode="sequential", on_failure="skip", members=[{}, {"payload": '{"word":"b"}', "template_id": new_id()}]
    )

    assert await groups.end(FAILURE) == fails

    job = await groups.scene.job(skipped)
    [run] = await groups.store.jobs.runs(skipped)
    assert (job.status, job.attempt, job.started_at) == (CANCELLED, 0, None)
    assert (run.status, run.attempt, run.worker_id, run.params_snapshot) == (RunStatus.SKIPPED, 0, None, {"word": "b"})
    assert run.started_at == run.finished_at == job.finished_at


async def test_the_members_that_run_when_others_are_skipped_finish_with_all_their_retries(groups: GroupScene) -> None:
    group_id, [fails, retries, skipped] = await groups.add(3, on_failure="skip", members=[{"max_retries": 0}])
    [first, second] = await groups.start(limit=2)
    await groups.scene.finish(second, BOOM)
    await groups.scene.finish(first, BOOM)
    await groups.move_on()

    assert await groups.statuses([fails, retries, skipped]) == [FAILED, JobStatus.RETRY, CANCELLED]
    await groups.scene.clock.advance(minutes=5)
    await groups.store.queue.promote_due(10)
    assert await groups.end(SUCCESS) == retries
    assert (await groups.group(group_id)).status is GroupStatus.FAILED


async def test_a_chained_retry_that_waits_has_begun_and_is_not_skipped(groups: GroupScene) -> None:
    group_id, [chained, fails, skipped] = await groups.add(3, on_failure="skip", members=[{"max_retries": 1}])
    [first, second] = await groups.start(limit=2)
    await groups.scene.finish(first, BOOM, CHAIN)
    await groups.scene.finish(second, FAILURE)
    await groups.move_on()

    retry = (await groups.scene.job(chained)).retried_as
    assert retry is not None
    assert await groups.statuses([retry, fails, skipped]) == [PENDING, FAILED, CANCELLED]
    assert (await groups.group(group_id)).tally.under_way == 1


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_an_operators_cancel_of_a_member_is_not_a_failure(groups: GroupScene, mode: Any) -> None:
    group_id, members = await groups.add(3, mode=mode)

    await groups.store.jobs.cancel(members[0], "ada", None)
    await groups.move_on()

    assert await groups.statuses(members) == [CANCELLED, PENDING, PENDING]
    assert not (await groups.group(group_id)).stopping
    assert (await groups.start())[0].job_id == members[1]


# -- the end -------------------------------------------------------------------------------------


async def test_a_hundred_members_that_end_at_once_make_one_callback(groups: GroupScene) -> None:
    group_id, members = await groups.add(100, with_callback=True)
    started = [claimed for _ in range(10) for claimed in await groups.start(limit=10)]

    await asyncio.gather(*(groups.scene.finish(claimed, SUCCESS) for claimed in started))
    looks = await groups.asked()
    assert looks
    for look in looks:
        await asyncio.gather(*(groups.store.groups.advance(group_id, new_id) for _ in range(5)))
        await groups.scene.finish(look, SUCCESS)
    await groups.move_on()

    group = await groups.group(group_id)
    [callback] = await groups.store.jobs.list(queue="calls")
    assert (group.tally.completed, group.callback_job_id) == (len(members), callback.id)
    told = (await groups.scene.job(callback.id)).payload
    assert told == {
        "word": "done",
        "group": {"id": group_id, "status": "COMPLETED", "completed": 100, "failed": 0, "cancelled": 0},
    }


async def test_members_that_end_while_a_look_is_due_ask_for_no_other(groups: GroupScene) -> None:
    await groups.add(20)
    started = [claimed for _ in range(2) for claimed in await groups.start(limit=10)]

    for claimed in started:
        await groups.scene.finish(claimed, SUCCESS)

    assert len(await groups.store.jobs.list(queue=INTERNAL_QUEUE)) == 1


async def test_a_member_that_ends_while_a_look_runs_asks_for_another(groups: GroupScene) -> None:
    group_id, _ = await groups.add(2)
    [first, second] = await groups.start()
    await groups.scene.finish(first, SUCCESS)
    [look] = await groups.asked()
    await groups.store.groups.advance(group_id, new_id)

    await groups.scene.finish(second, SUCCESS)
    assert (await groups.group(group_id)).finished_at is None
    await groups.scene.finish(look, SUCCESS)
    await groups.move_on()

    assert (await groups.group(group_id)).finished_at == groups.scene.now


async def test_what_the_group_ends_itself_needs_no_further_look(groups: GroupScene) -> None:
    group_id, _ = await groups.add(5)
    [first] = await groups.start(limit=1)
    await groups.scene.finish(first, FAILURE)

    assert await groups.move_on() == 1
    assert (await groups.group(group_id)).finished_at is not None


async def test_a_finished_group_calls_back_once_whatever_is_retried_later(groups: GroupScene) -> None:
    group_id, [only] = await groups.add(1, with_callback=True)
    await groups.end(FAILURE)
    before = await groups.group(group_id)
    assert before.status is GroupStatus.FAILED

    await groups.scene.clock.advance(minutes=1)
    await groups.store.jobs.retry(only, JobId(new_id()), "ada")
    await groups.end(SUCCESS)

    after = await groups.group(group_id)
    assert after.status is GroupStatus.COMPLETED
    assert (after.finished_at, after.callback_job_id) == (before.finished_at, before.callback_job_id)
    assert len(await groups.store.jobs.list(queue="calls")) == 1


@pytest.mark.parametrize("moment", ["before the look", "during the look"])
async def test_a_worker_that_dies_leaves_a_group_that_goes_on(groups: GroupScene, moment: str) -> None:
    """The end of a member asks for the look in its own transaction; a look that is lost is rescued as any job is."""
    group_id, [_, second] = await groups.add(2, mode="sequential")
    worker = await groups.scene.worker()
    [claimed] = await groups.start(worker_id=worker)
    await groups.scene.finish(claimed, SUCCESS)
    if moment == "during the look":
        assert len(await groups.asked(worker)) == 1
    await groups.store.workers.give_up(worker)
    await groups.scene.clock.advance(seconds=16)
    await rescue_runs(groups.store, await groups.scene.worker(), new_id, lambda: 0.5)
    await groups.move_on()

    assert await groups.end(SUCCESS) == second
    assert (await groups.group(group_id)).status is GroupStatus.COMPLETED


# -- cancelling, listing, refusing ---------------------------------------------------------------


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_cancelling_a_group_ends_all_that_is_open_and_finishes_it(groups: GroupScene, mode: Any) -> None:
    group_id, members = await groups.add(3, mode=mode, with_callback=True)
    [claimed] = await groups.start(limit=1)
    await groups.scene.finish(claimed, SUCCESS)
    await groups.move_on()
    await groups.start(limit=1)

    assert await groups.store.groups.cancel(group_id, new_id, "ada", "wrong data") == 2

    group = await groups.group(group_id)
    assert (group.status, group.finished_at) == (GroupStatus.CANCELLED, groups.scene.now)
    assert await groups.statuses(members) == [COMPLETED, CANCELLED, CANCELLED]
    last = (await groups.store.jobs.history(members[2]))[-1]
    assert (last.actor, last.metadata) == ("ada", {"reason": f"group {group_id} was cancelled: wrong data"})
    assert group.callback_job_id is not None
    assert (await groups.scene.job(group.callback_job_id)).payload["group"]["status"] == "CANCELLED"
    assert [record.entry.action for record in await groups.store.audit.list(group_id)] == ["GROUP_CANCELLED"]
    assert await groups.store.groups.cancel(group_id, new_id, "ada", None) == 0


async def test_groups_are_listed_newest_first_with_their_members_counted(groups: GroupScene) -> None:
    ids = [(await groups.add(count, name=f"group {count}", mode="sequential"))[0] for count in (1, 2, 3)]
    await groups.start()

    found = await groups.store.groups.list(DEFAULT_TENANT_ID, limit=2)
    rest = await groups.store.groups.list(DEFAULT_TENANT_ID, before=found[-1].id)

    assert [group.id for group in [*found, *rest]] == ids[::-1]
    assert [(group.tally.under_way, group.tally.held) for group in [*found, *rest]] == [(1, 2), (1, 1), (1, 0)]
    assert [await groups.group(group.id) for group in found] == found


async def test_members_are_listed_page_by_page(groups: GroupScene) -> None:
    group_id, members = await groups.add(5)

    page = await groups.store.groups.members(group_id, limit=2)
    rest = await groups.store.groups.members(group_id, after=page[-1].id)

    assert [member.id for member in [*page, *rest]] == members


async def test_a_group_that_never_was(groups: GroupScene) -> None:
    nobody = GroupId(new_id())

    assert await groups.store.groups.get(nobody) is None
    assert await groups.store.groups.advance(nobody, new_id) is None
    assert await groups.store.groups.cancel(nobody, new_id, None, None) is None
    assert await groups.store.groups.members(nobody) == []


async def test_a_group_is_made_with_all_its_members_or_not_at_all(groups: GroupScene) -> None:
    group = NewGroup(GroupId(new_id()), DEFAULT_TENANT_ID)
    good = await groups.scene.new_job(group_id=group.id)
    bad = await groups.scene.new_job(group_id=group.id, priority=10**9)

    with pytest.raises(Exception, match="priority"):
        await groups.store.groups.add(group, [good, bad], new_id)

    assert await groups.store.groups.get(group.id) is None
    assert await groups.store.jobs.get(good.id) is None


async def test_nobody_invents_a_skipped_run(groups: GroupScene, raw: Raw) -> None:
    job_id = await groups.scene.submit()
    await groups.store.jobs.cancel(job_id, None, None)
    columns = "id, job_id, attempt, tenant_id, queue, job_type, params_snapshot, status, started_at, finished_at"

    with pytest.raises(Refused, match="A run opens only with its job"):
        await raw(
            f"insert into cortex.job_run ({columns}) values ('{new_id()}', '{job_id}', 0, '{DEFAULT_TENANT_ID}', 'q', 'echo', "
            f"'{{}}', 'SKIPPED', {raw.now}, {raw.now})"
        )


async def test_a_member_that_raw_sql_ends_moves_its_group_on(groups: GroupScene, raw: Raw) -> None:
    _, [first, second] = await groups.add(2, mode="sequential")
    await raw(f"update cortex.job set {into(CANCELLED, raw)} where id = '{first}'")

    assert await groups.move_on() == 1
    assert (await groups.start())[0].job_id == second
