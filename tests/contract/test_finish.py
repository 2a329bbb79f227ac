"""Finishing: fenced by the run, each outcome leaves the job, its run and its queue entry in agreement."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cortex_plane.errors import CortexError
from cortex_plane.jobs.model import WorkerId
from cortex_plane.jobs.outcomes import Done, Failed, HandedBack, Interrupted, Outcome
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.worker.model import actor_of
from tests.contract.support import BOOM, FATAL, NO_JITTER, Raw, Scene, ended, run_ids

pytestmark = pytest.mark.anyio

CHAIN = RetryPolicy("chain", backoff=Backoff(jitter=False))
PROGRAM = {"exit_code": 3, "log_path": "logs/a.log", "artifacts": [{"path": "a.png", "bytes": 7}]}


@pytest.mark.parametrize(
    ("outcome", "status", "run_status"),
    [
        (Done('{"answer":42}'), JobStatus.COMPLETED, RunStatus.COMPLETED),
        (FATAL, JobStatus.FAILED, RunStatus.FAILED),
        (BOOM, JobStatus.RETRY, RunStatus.FAILED),
        (Interrupted(), JobStatus.RETRY, RunStatus.INTERRUPTED),
        (HandedBack(), JobStatus.RETRY, RunStatus.INTERRUPTED),
    ],
)
async def test_an_outcome_moves_the_job_and_closes_its_run(
    scene: Scene, outcome: Outcome, status: JobStatus, run_status: RunStatus
) -> None:
    claimed = await scene.running()
    await scene.clock.advance(seconds=5)
    assert await scene.finish(claimed, outcome)

    job = await scene.job(claimed.job_id)
    assert (job.status, job.run_id, job.worker_id, job.updated_at) == (status, None, None, scene.now)
    assert job.finished_at == (scene.now if status.is_terminal else None)
    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert (run.status, run.finished_at) == (run_status, scene.now)


async def test_a_completed_job_keeps_its_output(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Done('{"answer":42}'))

    assert await scene.store.jobs.status(claimed.job_id) == (JobStatus.COMPLETED, {"answer": 42}, None, None)


async def test_a_handler_that_returned_nothing_has_no_output(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Done("null"))

    assert await scene.store.jobs.status(claimed.job_id) == (JobStatus.COMPLETED, None, None, None)


async def test_a_failed_job_says_why_and_so_does_its_run(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, FATAL)

    error = {"type": "ValueError", "message": "boom"}
    assert await scene.store.jobs.status(claimed.job_id) == (JobStatus.FAILED, None, error, "boom")
    assert (await scene.store.jobs.runs(claimed.job_id))[0].error == "boom"


async def test_a_retry_waits_for_its_backoff_and_counts(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, BOOM)

    job = await scene.job(claimed.job_id)
    assert (job.retry_count, job.wait_reason, job.attempt) == (1, "retry", 1)
    assert job.next_retry_at == scene.now + timedelta(seconds=1)
    assert job.worker_job_id is not None
    assert await scene.store.queue.depths() == {"default": {"later": 1}}


@pytest.mark.parametrize("outcome", [Interrupted(), HandedBack()])
async def test_an_interruption_costs_no_retry_and_is_due_at_once_in_its_old_place(scene: Scene, outcome: Outcome) -> None:
    claimed = await scene.running()
    later = await scene.submit()
    await scene.finish(claimed, outcome)

    job = await scene.job(claimed.job_id)
    assert (job.retry_count, job.crash_count, job.next_retry_at) == (0, 0, scene.now)
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [claimed.job_id, later]


async def test_each_attempt_has_a_run_of_its_own(scene: Scene) -> None:
    claimed = await scene.running()
    worker = await scene.worker()
    for _ in range(3):
        await scene.finish(claimed, BOOM)
        await scene.clock.advance(minutes=5)
        await scene.store.queue.promote_due(10)
        [claimed] = await scene.claim(worker)

    runs = await scene.store.jobs.runs(claimed.job_id)
    assert [(run.attempt, run.status) for run in runs] == [(1, "FAILED"), (2, "FAILED"), (3, "FAILED"), (4, "RUNNING")]
    assert (claimed.attempt, claimed.retry_count) == (4, 3)
    assert len({run.id for run in runs}) == 4


async def test_what_a_program_left_behind_is_in_its_run(scene: Scene) -> None:
    good, bad = await scene.running(), await scene.running()
    await scene.finish(good, Done("1", PROGRAM))
    await scene.finish(bad, Failed({"message": "exit 3"}, run=PROGRAM))

    for claimed in (good, bad):
        [run] = await scene.store.jobs.runs(claimed.job_id)
        assert (run.exit_code, run.log_path, run.artifacts) == (3, "logs/a.log", [{"path": "a.png", "bytes": 7}])


async def test_a_run_without_a_program_has_no_exit_code_and_no_artifacts(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Done("1"))

    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert (run.exit_code, run.log_path, run.artifacts, run.error) == (None, None, [], None)


async def test_the_run_of_a_later_attempt_does_not_inherit_the_error_of_an_earlier_one(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, BOOM)
    await scene.clock.advance(minutes=1)
    await scene.store.queue.promote_due(10)
    await scene.claim(await scene.worker())
    await scene.store.jobs.cancel(claimed.job_id, "ada", None)

    assert [(run.status, run.error) for run in await scene.store.jobs.runs(claimed.job_id)] == [
        ("FAILED", "boom"),
        ("CANCELLED", None),
    ]


async def test_a_superseded_run_changes_nothing(scene: Scene) -> None:
    zombie = await scene.running()
    await scene.finish(zombie, Interrupted())
    [fresh] = await scene.claim(await scene.worker())
    before = await scene.job(zombie.job_id), await scene.store.jobs.history(zombie.job_id)

    for outcome in (Done("1"), FATAL, BOOM, Interrupted()):
        assert not await scene.finish(zombie, outcome)
    assert (await scene.job(zombie.job_id), await scene.store.jobs.history(zombie.job_id)) == before
    assert await scene.finish(fresh, Done("2"))


async def test_a_second_finish_of_the_same_run_changes_nothing(scene: Scene) -> None:
    claimed = await scene.running()
    assert await scene.finish(claimed, Done("1"))

    assert not await scene.finish(claimed, Done("2"))
    assert (await scene.job(claimed.job_id)).output == 1


async def test_a_cancelled_job_ignores_a_late_result(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.cancel(claimed.job_id, None, None)

    assert not await scene.finish(claimed, Done("1"))
    assert await scene.status(claimed.job_id) is JobStatus.CANCELLED


async def test_a_run_that_never_was_changes_nothing(scene: Scene) -> None:
    claimed = await scene.running()
    assert not await scene.finish(claimed._replace(run_id=run_ids(1)[0]), Done("1"))
    assert await scene.status(claimed.job_id) is JobStatus.RUNNING


async def test_a_mixed_batch_applies_the_good_and_passes_over_the_stale(scene: Scene) -> None:
    for _ in range(50):
        await scene.submit()
    claimed = await scene.claim(await scene.worker(), 50)
    for one in claimed[::2]:
        await scene.store.jobs.cancel(one.job_id, None, None)

    applied = await scene.store.queue.finish([ended(one, Done("1")) for one in reversed(claimed)], "test")
    assert applied == {one.run_id for one in claimed[1::2]}
    statuses = [await scene.status(one.job_id) for one in claimed]
    assert statuses == [JobStatus.CANCELLED, JobStatus.COMPLETED] * 25


async def test_a_stale_and_an_open_run_of_one_job_in_one_batch_are_told_apart(scene: Scene) -> None:
    stale = await scene.running()
    await scene.finish(stale, Interrupted())
    [fresh] = await scene.claim(await scene.worker())

    applied = await scene.store.queue.finish([ended(stale, Done("1")), ended(fresh, Done("2"))], "test")
    assert applied == {fresh.run_id}
    assert (await scene.job(fresh.job_id)).output == 2


async def test_an_empty_batch_is_nothing(scene: Scene) -> None:
    assert await scene.store.queue.finish([], "test") == set()


async def test_out_of_retries_is_in_the_audit(scene: Scene) -> None:
    claimed = await scene.running(max_retries=0)
    await scene.finish(claimed, BOOM, by="worker:w")

    [entry] = await scene.store.audit.list(claimed.job_id)
    assert (entry.entry.action, entry.entry.actor, entry.at) == ("JOB_EXHAUSTED_RETRIES", "worker:w", scene.now)
    said = {"job_type": "echo", "retry_count": 0, "cause": "fail", "error": "ValueError", "error_message": "boom"}
    assert entry.entry.details == said


@pytest.mark.parametrize("outcome", [FATAL, Done("1"), Interrupted()])
async def test_nothing_else_is_called_exhausted(scene: Scene, outcome: Outcome) -> None:
    claimed = await scene.running(max_retries=0)
    await scene.finish(claimed, outcome)

    actions = [record.entry.action for record in await scene.store.audit.list(claimed.job_id)]
    assert actions == {Done: ["JOB_COMPLETED"], Failed: ["JOB_FAILED"], Interrupted: []}[type(outcome)]


async def test_a_chained_failure_makes_one_linked_successor(scene: Scene) -> None:
    claimed = await scene.running(
        queue="mail", payload='{"a":1}', priority=3, tags=("x",), created_by="ada", timeout_seconds=9.0, retry_policy=CHAIN
    )
    await scene.finish(claimed, BOOM, CHAIN, by="worker:w")

    job = await scene.job(claimed.job_id)
    assert (job.status, job.retry_count) == (JobStatus.FAILED, 0)
    assert job.retried_as is not None
    successor = await scene.job(job.retried_as)
    assert (successor.status, successor.retry_of, successor.retry_count) == (JobStatus.PENDING, job.id, 1)
    assert successor.run_at == scene.now + timedelta(seconds=1)
    for name in ("queue", "payload", "priority", "tags", "created_by", "max_retries", "agent_id", "job_type", "tenant_id"):
        assert getattr(successor, name) == getattr(job, name), name
    assert successor.position > job.position
    await scene.clock.advance(seconds=1)
    await scene.store.queue.promote_due(10)
    [again] = await scene.claim(await scene.worker(), queues=["mail"])
    assert (again.job_id, again.retry_policy, again.timeout_seconds) == (successor.id, CHAIN, 9.0)


async def test_a_chain_ends_when_its_retries_are_used_up(scene: Scene) -> None:
    claimed = await scene.running(max_retries=2)
    worker = await scene.worker()
    jobs = [claimed.job_id]
    while True:
        await scene.finish(claimed, BOOM, RetryPolicy("chain", backoff=Backoff(0)))
        found = await scene.claim(worker)
        if not found:
            break
        [claimed] = found
        jobs.append(claimed.job_id)

    assert [(await scene.job(job_id)).retry_count for job_id in jobs] == [0, 1, 2]
    assert [len(await scene.store.jobs.runs(job_id)) for job_id in jobs] == [1, 1, 1]
    assert await scene.store.jobs.chain_end(jobs[0]) == (jobs[-1], JobStatus.FAILED)
    assert [entry.entry.action for entry in await scene.store.audit.list(jobs[-1])] == ["JOB_EXHAUSTED_RETRIES"]


async def test_a_chained_batch_makes_one_successor_for_each(scene: Scene) -> None:
    for _ in range(20):
        await scene.submit()
    claimed = await scene.claim(await scene.worker(), 20)
    await scene.store.queue.finish([ended(one, BOOM, CHAIN) for one in claimed], "test")
    await scene.store.queue.finish([ended(one, BOOM, CHAIN) for one in claimed], "test")

    successors = [(await scene.job(one.job_id)).retried_as for one in claimed]
    assert len(set(successors) - {None}) == 20
    assert await scene.store.queue.depths() == {"default": {"later": 20}}


async def test_a_successor_is_in_the_queue_before_its_predecessors_end_is_seen(scene: Scene, raw: Raw) -> None:
    """One transaction: whoever sees FAILED sees the retry."""
    claimed = await scene.running()
    await scene.finish(claimed, BOOM, CHAIN)

    [(count,)] = await raw(
        "select count(*) from cortex.queue_entry e join cortex.job j on j.id = e.job_id "
        f"where j.retry_of = '{claimed.job_id}' and j.worker_job_id = e.id"
    )
    assert count == 1


async def test_one_bad_transition_undoes_its_whole_batch(scene: Scene) -> None:
    """All in one transaction: the caller then tries them one by one."""
    for _ in range(2):
        await scene.submit()
    good, bad = await scene.claim(await scene.worker())
    with pytest.raises(CortexError, match="refused"):
        await scene.store.queue.finish([ended(good, Done("1")), ended(bad, BOOM)._replace(retry_count=99)], "test")

    assert [await scene.status(one.job_id) for one in (good, bad)] == [JobStatus.RUNNING] * 2


async def test_who_closed_a_run_is_known(scene: Scene) -> None:
    mine, cancelled, still_open = [await scene.running() for _ in range(3)]
    await scene.store.queue.finish([ended(mine, Done("1"), NO_JITTER)], actor_of(WorkerId("w")))
    await scene.store.jobs.cancel(cancelled.job_id, "ada", None)

    runs = [(one.job_id, one.run_id) for one in (mine, cancelled, still_open)]
    assert await scene.store.queue.closed_runs(runs) == {mine.run_id: "worker:w", cancelled.run_id: "ada"}
