"""A parent that waits for its child goes on when that ends; children that are to end with their parent do."""

from __future__ import annotations

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done, Interrupted
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus, RunStatus, WaitReason
from tests.contract.family_scene import CHILDREN_AGENT, RECHECK_SECONDS, Family, suspended
from tests.contract.support import BOOM, FATAL, Raw, Scene, ended, into

pytestmark = pytest.mark.anyio

CHAIN = RetryPolicy("chain", 2, Backoff(jitter=False))
ENDED = [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED]


@pytest.fixture
async def family(scene: Scene) -> Family:
    await scene.agent(CHILDREN_AGENT)
    return Family(scene)


async def end(family: Family, claimed: Claimed, status: JobStatus) -> None:
    match status:
        case JobStatus.COMPLETED:
            await family.scene.finish(claimed, Done("1"))
        case JobStatus.FAILED:
            await family.scene.finish(claimed, FATAL)
        case JobStatus.CANCELLED:
            await family.store.jobs.cancel(claimed.job_id, None, None)


# -- waking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ENDED)
async def test_a_parent_is_due_when_its_child_ends_however_that_ends(family: Family, status: JobStatus) -> None:
    parent, child = await family.waiting()
    await family.scene.clock.advance(seconds=5)
    await end(family, child, status)

    job = await family.scene.job(parent)
    assert (job.status, job.next_retry_at, job.updated_at) == (JobStatus.RETRY, family.scene.now, family.scene.now)
    standing = await family.store.queue.standing(parent)
    assert standing is not None
    assert (standing.state, standing.due_at) == ("ready", family.scene.now)
    assert await family.due() == [parent]
    assert [run.status for run in await family.store.jobs.runs(parent)] == [RunStatus.SLEEPING, RunStatus.RUNNING]


@pytest.mark.parametrize("status", ENDED)
async def test_a_parent_that_comes_to_wait_after_its_child_ended_is_due_at_once(family: Family, status: JobStatus) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id)
    await end(family, child, status)
    await family.scene.clock.advance(seconds=5)
    await family.suspend(parent, child.job_id)

    job = await family.scene.job(parent.job_id)
    assert (job.wait_reason, job.next_retry_at) == (WaitReason.CHILD, job.updated_at)
    assert await family.due() == [parent.job_id]


async def test_a_parent_that_waits_for_a_job_that_is_not_there_is_due_at_once(family: Family) -> None:
    parent = await family.scene.running()
    await family.suspend(parent, JobId(new_id()))

    assert await family.due() == [parent.job_id]


@pytest.mark.parametrize("older", ["parent", "child"])
async def test_both_sides_may_be_in_one_batch(family: Family, older: str) -> None:
    ids = sorted(JobId(new_id()) for _ in range(2))
    parent_id, child_id = ids if older == "parent" else reversed(ids)
    parent = await family.scene.running(id=parent_id)
    child = await family.child_of(parent_id, id=child_id)

    await family.store.queue.finish([suspended(parent, child_id), ended(child, Done("1"))], "test")

    assert await family.due() == [parent_id]


async def test_a_child_that_only_pauses_wakes_nobody(family: Family) -> None:
    parent, child = await family.waiting()
    await family.scene.finish(child, Interrupted())

    assert await family.due() == []
    assert (await family.scene.job(parent)).status is JobStatus.RETRY


async def test_a_parent_looks_again_by_itself_after_a_while(family: Family) -> None:
    parent, _ = await family.waiting()
    await family.scene.clock.advance(seconds=RECHECK_SECONDS)
    assert await family.store.queue.promote_due(10) == 1

    assert await family.due() == [parent]


async def test_a_parent_that_waits_for_something_else_sleeps_on(family: Family) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id)
    await family.suspend(parent, child.job_id, WaitReason.SLEEP)
    await family.scene.finish(child, Done())

    assert await family.due() == []
    job = await family.scene.job(parent.job_id)
    assert job.next_retry_at is not None
    assert job.next_retry_at > family.scene.now


async def test_a_parent_that_goes_to_sleep_after_a_child_ended_sleeps(family: Family) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id)
    await family.scene.finish(child, Done())
    await family.suspend(parent, child.job_id, WaitReason.SLEEP)

    assert await family.due() == []


async def test_a_parent_that_was_cancelled_stays_so_when_its_child_ends(family: Family) -> None:
    parent, child = await family.waiting()
    await family.store.jobs.cancel(parent, None, None)
    await family.scene.finish(child, Done())

    assert await family.statuses(parent, child.job_id) == [JobStatus.CANCELLED, JobStatus.COMPLETED]
    assert await family.due() == []


async def test_raw_sql_that_ends_a_child_wakes_its_parent_too(family: Family, raw: Raw) -> None:
    parent, child = await family.waiting()
    await raw(f"update cortex.job set {into(JobStatus.FAILED, raw)} where id = '{child.job_id}'")

    assert await family.due() == [parent]


async def test_waking_is_no_transition_and_writes_no_history(family: Family) -> None:
    parent, child = await family.waiting()
    before = await family.store.jobs.history(parent)
    await family.scene.finish(child, Done())

    assert await family.store.jobs.history(parent) == before


async def test_many_children_of_many_parents_in_one_batch_wake_each_of_them(family: Family) -> None:
    pairs = [await family.waiting() for _ in range(5)]
    others = [await family.child_of(parent) for parent, _ in pairs]
    await family.store.queue.finish([ended(one, Done()) for one in [*others, *(child for _, child in pairs)]], "test")

    assert sorted(await family.due()) == sorted(parent for parent, _ in pairs)


async def test_a_parent_with_a_serial_key_waits_for_its_key(family: Family) -> None:
    parent, child = await family.waiting(serial_key="k")
    other = await family.scene.running(serial_key="k")
    await family.scene.finish(child, Done())
    assert await family.due() == []
    standing = await family.store.queue.standing(parent)
    assert standing is not None
    assert (standing.state, standing.key_held_by) == ("blocked", other.job_id)

    await family.scene.finish(other, Done())

    assert await family.due() == [parent]


async def test_a_parent_with_a_serial_key_whose_child_has_ended_keeps_its_place(family: Family) -> None:
    parent = await family.scene.running(serial_key="k")
    await family.scene.submit(serial_key="k")
    child = await family.child_of(parent.job_id)
    await family.scene.finish(child, Done())
    await family.suspend(parent, child.job_id)

    assert await family.due() == [parent.job_id]


# -- retries stay in the family ------------------------------------------------------------------


async def test_a_retry_of_a_child_keeps_its_parent_and_wakes_it(family: Family) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id, cancel_with_parent=True, max_retries=1)
    await family.scene.finish(child, BOOM, CHAIN)
    chained = (await family.scene.job(child.job_id)).retried_as
    assert chained is not None
    assert (await family.scene.job(chained)).parent_id == parent.job_id
    await family.suspend(parent, chained)
    assert await family.due() == []

    await family.store.jobs.cancel(chained, None, None)
    assert await family.due() == [parent.job_id]


async def test_retries_end_with_the_parent_as_the_child_would_have(family: Family) -> None:
    parent = await family.scene.running()
    chained, asked_for = JobId(new_id()), JobId(new_id())
    child = await family.child_of(parent.job_id, cancel_with_parent=True, max_retries=1)
    note = {"retry_as": chained, "retry_delay_seconds": 600.0}
    await family.store.queue.finish([ended(child, FATAL)._replace(note=note)], "test")
    finished = await family.child_of(parent.job_id, cancel_with_parent=True)
    await family.scene.finish(finished, Done())
    await family.store.jobs.retry(finished.job_id, asked_for, None)
    await family.store.jobs.cancel(parent.job_id, None, None)

    assert await family.asked() == [parent.job_id]
    assert await family.store.jobs.cancel_children(parent.job_id, None, None) == 2
    assert await family.statuses(chained, asked_for) == [JobStatus.CANCELLED] * 2


# -- ending together -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", ENDED)
async def test_a_parent_that_ends_undone_asks_for_the_end_of_its_children(family: Family, status: JobStatus) -> None:
    parent = await family.scene.running()
    await family.scene.submit(parent_id=parent.job_id, cancel_with_parent=True)
    await family.scene.submit(parent_id=parent.job_id, cancel_with_parent=True)
    await end(family, parent, status)

    assert await family.asked() == ([] if status is JobStatus.COMPLETED else [parent.job_id])


async def test_nobody_is_asked_where_no_child_is_to_end(family: Family) -> None:
    parent = await family.scene.running()
    finished = await family.child_of(parent.job_id, cancel_with_parent=True)
    await family.scene.finish(finished, Done())
    await family.scene.submit(parent_id=parent.job_id)
    await family.store.jobs.cancel(parent.job_id, None, None)

    assert await family.asked() == []


async def test_exactly_those_are_cancelled_that_end_with_their_parent_and_have_not_ended(family: Family) -> None:
    parent = await family.scene.running()
    finished = await family.child_of(parent.job_id, cancel_with_parent=True)
    await family.scene.finish(finished, Done())
    running = await family.child_of(parent.job_id, cancel_with_parent=True)
    retrying = await family.child_of(parent.job_id, cancel_with_parent=True)
    await family.scene.finish(retrying, BOOM)
    free = await family.scene.submit(parent_id=parent.job_id)
    stranger = await family.scene.submit()
    waiting = await family.scene.submit(parent_id=parent.job_id, cancel_with_parent=True)
    await family.scene.finish(parent, FATAL)

    assert await family.store.jobs.cancel_children(parent.job_id, "ada", "its parent failed") == 3

    assert await family.statuses(running.job_id, retrying.job_id, waiting) == [JobStatus.CANCELLED] * 3
    assert await family.statuses(finished.job_id, free, stranger) == [JobStatus.COMPLETED, JobStatus.PENDING, JobStatus.PENDING]
    last = (await family.store.jobs.history(waiting))[-1]
    assert (last.cause, last.actor, last.metadata) == ("cancel", "ada", {"reason": "its parent failed"})
    assert await family.store.jobs.cancel_children(parent.job_id, "ada", None) == 0


@pytest.mark.parametrize("ends", [False, True])
async def test_children_of_a_parent_that_goes_on_or_completed_are_left_alone(family: Family, ends: bool) -> None:
    parent = await family.scene.running()
    child = await family.scene.submit(parent_id=parent.job_id, cancel_with_parent=True)
    if ends:
        await family.scene.finish(parent, Done())

    assert await family.store.jobs.cancel_children(parent.job_id, None, None) == 0
    assert await family.statuses(child) == [JobStatus.PENDING]


async def test_grandchildren_follow(family: Family) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id, cancel_with_parent=True)
    grandchild = await family.scene.submit(parent_id=child.job_id, cancel_with_parent=True)
    await family.store.jobs.cancel(parent.job_id, None, None)
    await family.store.jobs.cancel_children(parent.job_id, None, None)

    assert await family.asked() == sorted([parent.job_id, child.job_id])
    assert await family.store.jobs.cancel_children(child.job_id, None, None) == 1
    assert await family.statuses(grandchild) == [JobStatus.CANCELLED]


async def test_a_child_that_is_born_after_its_parent_ended_is_seen_too(family: Family) -> None:
    """A handler may go on for a while after its job was cancelled."""
    parent = await family.scene.running()
    await family.store.jobs.cancel(parent.job_id, None, None)
    await family.scene.submit(parent_id=parent.job_id)
    assert await family.asked() == []

    child = await family.scene.submit(parent_id=parent.job_id, cancel_with_parent=True)

    assert await family.asked() == [parent.job_id]
    assert await family.store.jobs.cancel_children(parent.job_id, None, None) == 1
    assert await family.statuses(child) == [JobStatus.CANCELLED]


async def test_a_chained_retry_that_comes_after_its_parent_ended_is_seen_too(family: Family) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id, cancel_with_parent=True, max_retries=1)
    await family.store.jobs.cancel(parent.job_id, None, None)
    assert await family.asked() == [parent.job_id]
    await family.scene.finish(child, BOOM, CHAIN)

    assert await family.asked() == [parent.job_id] * 2


async def test_a_child_that_an_operator_retries_after_its_parent_ended_may_run(family: Family) -> None:
    parent = await family.scene.running()
    child = await family.child_of(parent.job_id, cancel_with_parent=True)
    await family.store.jobs.cancel(parent.job_id, None, None)
    await family.store.jobs.cancel_children(parent.job_id, None, None)
    before = await family.asked()
    assert await family.store.jobs.retry(child.job_id, JobId(new_id()), "ada")

    assert await family.asked() == before


async def test_a_child_says_who_its_parent_is(family: Family) -> None:
    parent, group, template = JobId(new_id()), new_id(), new_id()
    job_id = await family.scene.submit(parent_id=parent, group_id=group, template_id=template)

    job = await family.scene.job(job_id)
    assert (job.parent_id, job.group_id, job.template_id, job.checkpoint_id) == (parent, group, template, None)
