"""What the runs of a worker write: in batches, in order, each writer answered with the truth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cortex_plane import InvalidInput, JobStatus
from cortex_plane.durable.schema import Blob, Checkpoint
from cortex_plane.errors import Conflict, LeaseLost, Unavailable
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, RunId
from cortex_plane.jobs.outcomes import Transition
from cortex_plane.jobs.states import WaitReason
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from cortex_plane.worker.model import actor_of
from cortex_plane.worker.outbox import Outbox
from tests.end_to_end.inspection import query
from tests.runtime.faults import FaultyStore, Recorder, fails, loses_answer
from tests.runtime.helpers import PATIENCE_SECONDS, claim, eventually, register_agent, register_worker, submit_to

pytestmark = pytest.mark.anyio


class Desk:
    """An outbox over a store that can be tampered with, and some jobs that its worker has claimed."""

    def __init__(self, store: Store, outbox: Outbox, faulty: FaultyStore, claimed: list[Claimed]) -> None:
        self.store, self.outbox, self.faulty, self.claimed = store, outbox, faulty, claimed

    async def statuses(self) -> list[JobStatus]:
        jobs = [await self.store.jobs.get(claimed.job_id) for claimed in self.claimed]
        return [job.status for job in jobs if job is not None]

    async def audited(self, claimed: Claimed) -> list[str]:
        return [entry.entry.action for entry in await self.store.audit.list(claimed.job_id)]


async def desk_with(store: Store, clock: ManualClock, jobs: int) -> Desk:
    await submit_to(store, await register_agent(store), jobs)
    worker_id = await register_worker(store)
    faulty: Any = FaultyStore(store)
    return Desk(store, Outbox(faulty, clock, actor_of(worker_id), slots=1_000), faulty, await claim(store, worker_id, jobs))


def completed(claimed: Claimed, output: Any = None) -> Transition:
    return Transition(claimed.job_id, claimed.run_id, JobStatus.COMPLETED, "complete", output=json.dumps(output))


def snapshot(claimed: Claimed, step: int, previous: Checkpoint | None = None) -> Checkpoint:
    previous_id = None if previous is None else previous.checkpoint_id
    return Checkpoint(claimed.job_id, claimed.run_id, new_id(), previous_id, json.dumps({"step": step}))


async def test_what_is_posted_together_is_written_together(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 50)
    finish = Recorder()
    desk.faulty.around("queue", "finish", finish)

    answers = await asyncio.gather(*(desk.outbox.finish(completed(claimed)) for claimed in desk.claimed))

    assert answers == [True] * 50
    assert [len(batch) for batch in finish.asked] == [50]
    assert await desk.statuses() == [JobStatus.COMPLETED] * 50


async def test_of_two_snapshots_of_one_run_only_the_newer_is_written_and_both_writers_are_answered(
    store: Store, clock: ManualClock, database_url: str
) -> None:
    desk = await desk_with(store, clock, 2)
    first, second = desk.claimed
    saves = Recorder()
    desk.faulty.around("checkpoints", "save", saves)

    older = replace(snapshot(first, 1), blobs=(Blob("a" * 64, '"a"'),), cost_cents=3)
    newer = replace(snapshot(first, 2, older), blobs=(Blob("b" * 64, '"b"'),), cost_cents=4)
    await asyncio.wait_for(
        asyncio.gather(desk.outbox.save(older), desk.outbox.save(snapshot(second, 7)), desk.outbox.save(newer)), 5
    )

    written = [{checkpoint.run_id: json.loads(checkpoint.document) for checkpoint in batch} for batch in saves.asked]
    assert written == [{first.run_id: {"step": 2}, second.run_id: {"step": 7}}]
    stored = {str(row[0]): json.loads(row[1]) for row in await query(database_url, "select id, checkpoint from cortex.job")}
    assert stored == {first.job_id: {"step": 2}, second.job_id: {"step": 7}}
    assert await desk.store.checkpoints.blobs(first.job_id, ["a" * 64, "b" * 64]) == {"a" * 64: '"a"', "b" * 64: '"b"'}
    job = await desk.store.jobs.get(first.job_id)
    assert job is not None
    assert job.cost_cents == 7


async def test_segments_of_snapshots_that_were_not_written_go_with_the_one_that_is(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed
    first = replace(snapshot(claimed, 1), blobs=(Blob("1" * 64, '"one"', 1),))
    second = replace(snapshot(claimed, 2, first), blobs=(Blob("2" * 64, '"two"', 2), Blob("3" * 64, '"three"', 3)))
    third = snapshot(claimed, 3, second)

    await asyncio.gather(*(desk.outbox.save(one) for one in (first, second, third)))

    stored = await store.checkpoints.load(claimed.job_id)
    assert stored is not None
    assert json.loads(stored.document) == {"step": 3}
    assert stored.segments == (*first.blobs, *second.blobs)


async def test_a_snapshot_that_comes_while_one_is_written_is_written_after_it(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed
    saves = Recorder()
    desk.faulty.around("checkpoints", "save", saves)

    first = snapshot(claimed, 1)
    early = asyncio.create_task(desk.outbox.save(first))

    async def under_way() -> bool:
        return bool(saves.asked)

    await eventually(under_way)
    await asyncio.gather(early, desk.outbox.save(snapshot(claimed, 2, first)))

    assert [json.loads(batch[0].document) for batch in saves.asked] == [{"step": 1}, {"step": 2}]


async def test_a_checkpoint_is_written_before_the_finish_that_follows_it(
    store: Store, clock: ManualClock, database_url: str
) -> None:
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed

    saved, finished = await asyncio.gather(desk.outbox.save(snapshot(claimed, 9)), desk.outbox.finish(completed(claimed)))

    assert (saved, finished) == (None, True)
    ((checkpoint,),) = await query(database_url, "select checkpoint from cortex.job")
    assert json.loads(checkpoint) == {"step": 9}


# What a database refuses for its data, and what cannot even be put into words.
BAD = {
    "a broken rule": {"status": JobStatus.RETRY, "wait_reason": WaitReason.RETRY, "delay_seconds": 0.0, "retry_count": 99},
    "a transition that does not exist": {"status": JobStatus.PENDING},
    "half a surrogate": {"status": JobStatus.FAILED, "error": {"message": "\ud800"}, "error_message": "failed"},
    "a value that is not JSON": {"status": JobStatus.FAILED, "error": {"message": object()}, "error_message": "failed"},
}


@pytest.mark.parametrize("bad", BAD)
async def test_one_bad_element_of_two_hundred_fails_alone(store: Store, clock: ManualClock, bad: str) -> None:
    desk = await desk_with(store, clock, 200)
    transitions = [completed(claimed) for claimed in desk.claimed]
    unlucky = desk.claimed[77]
    transitions[77] = Transition(unlucky.job_id, unlucky.run_id, cause="test", **BAD[bad])  # type: ignore[arg-type]

    answers = await asyncio.wait_for(
        asyncio.gather(*(desk.outbox.finish(transition) for transition in transitions), return_exceptions=True), 8
    )

    assert isinstance(answers.pop(77), (Conflict, InvalidInput))
    assert answers == [True] * 199
    statuses = await desk.statuses()
    assert statuses.pop(77) is JobStatus.RUNNING
    assert set(statuses) == {JobStatus.COMPLETED}


async def test_a_bad_checkpoint_fails_alone_too(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 20)
    checkpoints = [snapshot(claimed, 1) for claimed in desk.claimed]
    checkpoints[7] = replace(checkpoints[7], document='{"text": "a\\u0000b"}')

    async def refuse(method: Any, batch: Sequence[Checkpoint]) -> Any:
        if any("u0000" in checkpoint.document for checkpoint in batch):
            raise InvalidInput("The database refused it.")
        return await method(batch)

    desk.faulty.around("checkpoints", "save", refuse)
    answers = await asyncio.wait_for(
        asyncio.gather(*(desk.outbox.save(checkpoint) for checkpoint in checkpoints), return_exceptions=True), 10
    )

    assert isinstance(answers.pop(7), InvalidInput)
    assert answers == [None] * 19


async def test_an_error_that_nobody_foresaw_is_answered_too(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 3)
    desk.faulty.around("queue", "finish", fails(1, RuntimeError("nobody thought of this")))

    answers = await asyncio.wait_for(
        asyncio.gather(*(desk.outbox.finish(completed(claimed)) for claimed in desk.claimed), return_exceptions=True), 5
    )

    assert len(answers) == 3  # Whether they were tried again or refused: nobody waits for ever.


async def test_a_database_that_is_away_is_waited_for(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 5)
    desk.faulty.around("queue", "finish", fails(3))
    desk.faulty.around("checkpoints", "save", fails(2))

    saved = asyncio.gather(*(desk.outbox.save(snapshot(claimed, 1)) for claimed in desk.claimed))
    answers = await asyncio.wait_for(asyncio.gather(*(desk.outbox.finish(completed(claimed)) for claimed in desk.claimed)), 10)

    assert await saved == [None] * 5
    assert answers == [True] * 5


async def test_abandoning_answers_those_who_wait_and_those_whose_batch_is_under_way(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 4)
    under_way, never = asyncio.Event(), asyncio.Event()

    async def hang(_method: Any, *_values: Any) -> Any:
        under_way.set()
        await never.wait()

    desk.faulty.around("queue", "finish", hang)
    desk.faulty.around("checkpoints", "save", hang)
    first, second, third, fourth = desk.claimed
    early = [
        asyncio.ensure_future(desk.outbox.finish(completed(first))),
        asyncio.ensure_future(desk.outbox.finish(completed(second))),
    ]
    await asyncio.wait_for(under_way.wait(), PATIENCE_SECONDS)
    late: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(desk.outbox.finish(completed(third))),
        asyncio.ensure_future(desk.outbox.save(snapshot(fourth, 1))),
    ]
    await asyncio.sleep(0)

    desk.outbox.abandon()
    answers = await asyncio.wait_for(asyncio.gather(*early, *late, return_exceptions=True), 3)

    assert answers[:3] == [False, False, False]
    assert isinstance(answers[3], LeaseLost)


async def test_a_lost_acknowledgement_of_a_finish_is_recognised(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 3)
    desk.faulty.around("queue", "finish", loses_answer(2))

    answers = await asyncio.wait_for(asyncio.gather(*(desk.outbox.finish(completed(claimed)) for claimed in desk.claimed)), 10)

    assert answers == [True] * 3
    assert [await desk.audited(claimed) for claimed in desk.claimed] == [["JOB_COMPLETED"]] * 3
    histories = [await store.jobs.history(claimed.job_id) for claimed in desk.claimed]
    assert [[entry.new_status for entry in history].count(JobStatus.COMPLETED) for history in histories] == [1, 1, 1]


async def test_a_lost_acknowledgement_is_recognised_though_the_job_went_on(store: Store, clock: ManualClock) -> None:
    """The first answer was lost, and before the second try another worker has claimed the job anew."""
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed
    other = await register_worker(store)

    async def taken_over(method: Any, *values: Any) -> Any:
        await method(*values)
        desk.faulty.heal()
        assert len(await claim(store, other, 1)) == 1
        raise Unavailable("The connection broke.")

    desk.faulty.around("queue", "finish", taken_over)
    interrupted = Transition(
        claimed.job_id, claimed.run_id, JobStatus.RETRY, "interrupt", wait_reason=WaitReason.INTERRUPTED, delay_seconds=0.0
    )

    assert await asyncio.wait_for(desk.outbox.finish(interrupted), 10) is True
    assert await desk.audited(claimed) == []
    assert await desk.statuses() == [JobStatus.RUNNING]


async def test_a_write_of_a_superseded_run_is_refused_and_audited(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 3)
    stale = desk.claimed[1]
    await store.jobs.cancel(stale.job_id, "ann", None)

    answers = await asyncio.gather(*(desk.outbox.finish(completed(claimed, "late")) for claimed in desk.claimed))

    assert answers == [True, False, True]
    assert await desk.statuses() == [JobStatus.COMPLETED, JobStatus.CANCELLED, JobStatus.COMPLETED]
    assert [await desk.audited(claimed) for claimed in desk.claimed] == [
        ["JOB_COMPLETED"],
        ["JOB_CANCELLED", "STALE_WRITE"],
        ["JOB_COMPLETED"],
    ]
    entry = (await store.audit.list(stale.job_id))[-1]
    assert entry.entry.details == {"run_id": stale.run_id, "wanted": "COMPLETED"}


async def test_a_checkpoint_of_a_superseded_run_raises_lease_lost(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed
    await store.jobs.cancel(claimed.job_id, None, None)

    with pytest.raises(LeaseLost) as lost:
        await desk.outbox.save(snapshot(claimed, 1))

    assert (lost.value.job_id, lost.value.run_id) == (claimed.job_id, claimed.run_id)


async def test_drained_waits_for_what_is_under_way(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed
    desk.faulty.around("queue", "finish", fails(2))
    answers: list[bool] = []

    finishing = asyncio.create_task(desk.outbox.finish(completed(claimed)))
    finishing.add_done_callback(lambda task: answers.append(task.result()))
    await asyncio.sleep(0)
    await asyncio.wait_for(desk.outbox.drained(), 10)
    await finishing
    await asyncio.sleep(0)

    assert answers == [True]


async def test_a_finish_of_a_run_that_never_was_is_stale(store: Store, clock: ManualClock) -> None:
    desk = await desk_with(store, clock, 1)
    (claimed,) = desk.claimed
    invented = Transition(claimed.job_id, RunId("00000000-0000-7000-8000-00000000dead"), JobStatus.COMPLETED, "complete")

    assert await desk.outbox.finish(invented) is False
    assert await desk.statuses() == [JobStatus.RUNNING]
