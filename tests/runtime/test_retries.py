"""What becomes of a job whose handler fails: how often it is tried again, when, and as which job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from cortex_plane import Backoff, Context, JobFailed, JobHandle, JobStatus, PermanentFailure, RetryPolicy, RunStatus, WaitReason
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import status_becomes, worker_on

pytestmark = pytest.mark.anyio

STEADY = Backoff(base_seconds=10, multiplier=3, max_seconds=50, jitter=False)


def failing(plane: TestPlane, retry: RetryPolicy, successes_after: int = 1000) -> Any:
    """An agent that fails until it has been started so many times."""
    starts = 0

    @plane.agent("flaky", retry=retry)
    async def flaky(ctx: Context) -> str:
        nonlocal starts
        starts += 1
        if starts <= successes_after:
            raise ValueError(f"failure {starts}")
        return f"success {starts}"

    return flaky


async def actions(plane: TestPlane, job: JobHandle[Any]) -> list[str]:
    return [entry.entry.action for entry in await plane.store.audit.list(job.id)]


async def test_in_place_the_same_job_waits_longer_each_time_until_its_retries_are_spent(plane: TestPlane) -> None:
    job = await failing(plane, RetryPolicy("in_place", 3, STEADY)).submit()

    for count, seconds in [(1, 10), (2, 30), (3, 50)]:
        await plane.work()
        waiting = await job.job()
        assert (waiting.status, waiting.retry_count, waiting.wait_reason) == (JobStatus.RETRY, count, WaitReason.RETRY)
        assert waiting.next_retry_at == plane.clock.moment() + timedelta(seconds=seconds)
        await plane.clock.advance(seconds=seconds)
    await plane.work()

    ended = await job.job()
    assert (ended.status, ended.retry_count, ended.attempt, ended.error_message) == (JobStatus.FAILED, 3, 4, "failure 4")
    assert await actions(plane, job) == ["JOB_EXHAUSTED_RETRIES"]


async def test_a_retry_does_not_start_before_its_time(plane: TestPlane) -> None:
    job = await failing(plane, RetryPolicy("in_place", 3, STEADY), successes_after=1).submit()

    await plane.work()
    await plane.clock.advance(seconds=9.999)
    await plane.work()
    too_early = await job.status()
    await plane.clock.advance(seconds=0.001)
    await plane.work()

    assert too_early is JobStatus.RETRY
    assert await job.result() == "success 2"


async def test_each_attempt_has_a_run_and_two_lines_of_history(plane: TestPlane) -> None:
    job = await failing(plane, RetryPolicy("in_place", 3, STEADY), successes_after=2).submit()

    for _ in range(3):
        await plane.work()
        await plane.clock.advance(minutes=1)

    runs, history = await job.runs(), await job.history()
    assert [(run.attempt, run.status, run.error) for run in runs] == [
        (1, RunStatus.FAILED, "failure 1"),
        (2, RunStatus.FAILED, "failure 2"),
        (3, RunStatus.COMPLETED, None),
    ]
    assert [(entry.new_status, entry.cause) for entry in history] == [
        (JobStatus.PENDING, "submit"),
        (JobStatus.RUNNING, "claim"),
        (JobStatus.RETRY, "fail"),
        (JobStatus.RUNNING, "claim"),
        (JobStatus.RETRY, "fail"),
        (JobStatus.RUNNING, "claim"),
        (JobStatus.COMPLETED, "complete"),
    ]
    assert [entry.run_id for entry in history] == [None, *(run.id for run in runs for _ in range(2))]
    assert [entry.metadata["retry_count"] for entry in history if entry.new_status is JobStatus.RETRY] == [1, 2]
    assert (await job.job()).error is None
    assert await actions(plane, job) == ["JOB_COMPLETED"]


async def test_in_a_chain_each_retry_is_a_job_of_its_own(plane: TestPlane) -> None:
    first = await failing(plane, RetryPolicy("chain", 2, STEADY), successes_after=2).submit()

    chain = [await first.job()]
    for seconds in (10, 30):
        await plane.work()
        ended = await plane.jobs.get(chain[-1].id)
        assert ended.status is JobStatus.FAILED
        assert ended.retried_as is not None
        chain.append(await plane.jobs.get(ended.retried_as))
        assert chain[-1].run_at == plane.clock.moment() + timedelta(seconds=seconds)
        await plane.clock.advance(seconds=seconds)
    await plane.work()

    assert await plane.jobs.result(chain[-1].id) == "success 3"
    assert [job.retry_of for job in chain] == [None, chain[0].id, chain[1].id]
    assert [job.retry_count for job in chain] == [0, 1, 2]
    assert [len(await plane.jobs.runs(job.id)) for job in chain] == [1, 1, 1]


async def test_the_last_job_of_a_chain_is_the_one_that_is_exhausted(plane: TestPlane) -> None:
    first = await failing(plane, RetryPolicy("chain", 1, STEADY)).submit()

    await plane.work()
    await plane.clock.advance(seconds=10)
    await plane.work()

    last = plane.job(str((await first.job()).retried_as))
    assert (await last.job()).retried_as is None
    assert await actions(plane, first) == []
    assert await actions(plane, last) == ["JOB_EXHAUSTED_RETRIES"]


async def test_a_chained_retry_does_the_same_work(plane: TestPlane) -> None:
    @plane.agent("chained", retry=RetryPolicy("chain", 1, STEADY))
    async def chained(ctx: Context, word: str) -> None:
        raise ValueError(word)

    first = await chained.options(
        queue="side", priority=4, serial_key="key", tags=["a", "b"], created_by="ann", run_timeout=7.0
    ).submit("again")
    await plane.work(queues=["side"])

    before = await first.job()
    after = await plane.jobs.get(str(before.retried_as))
    same = ("job_type", "payload", "queue", "priority", "serial_key", "tags", "created_by", "max_retries", "tenant_id")
    assert {name: getattr(after, name) for name in same} == {name: getattr(before, name) for name in same}


@pytest.mark.parametrize("mode", ["in_place", "chain"])
async def test_a_permanent_failure_spends_no_retries(plane: TestPlane, mode: Any) -> None:
    @plane.agent("hopeless", retry=RetryPolicy(mode, 5, STEADY))
    async def hopeless(ctx: Context) -> None:
        raise PermanentFailure("The account is closed.")

    job = await hopeless.submit()
    await plane.work()

    ended = await job.job()
    assert (ended.status, ended.retry_count, ended.retried_as) == (JobStatus.FAILED, 0, None)
    assert ended.error["type"] == "PermanentFailure"
    assert await actions(plane, job) == ["JOB_FAILED"]
    with pytest.raises(JobFailed, match="The account is closed"):
        await job.result()


@pytest.mark.parametrize("mode", ["in_place", "chain"])
async def test_without_retries_the_first_failure_ends_it(plane: TestPlane, mode: Any) -> None:
    job = await failing(plane, RetryPolicy(mode, 0, STEADY)).submit()

    await plane.work()

    assert await job.status() is JobStatus.FAILED
    assert len(await plane.jobs.list()) == 1
    assert await actions(plane, job) == ["JOB_EXHAUSTED_RETRIES"]


async def test_a_job_may_have_fewer_retries_than_its_agent(plane: TestPlane) -> None:
    job = await failing(plane, RetryPolicy("in_place", 3, STEADY)).options(max_retries=0).submit()

    await plane.work()

    assert await job.status() is JobStatus.FAILED


async def test_a_job_may_have_a_policy_of_its_own(plane: TestPlane) -> None:
    own = RetryPolicy("chain", 1, Backoff(base_seconds=5, jitter=False))
    job = await failing(plane, RetryPolicy("in_place", 3, STEADY)).options(retry=own).submit()

    await plane.work()

    ended = await job.job()
    assert ended.status is JobStatus.FAILED
    successor = await plane.jobs.get(str(ended.retried_as))
    assert successor.run_at == plane.clock.moment() + timedelta(seconds=5)


async def test_jitter_takes_a_part_of_the_delay(plane: TestPlane) -> None:
    backoff = Backoff(base_seconds=100, jitter=True)
    job = await failing(plane, RetryPolicy("in_place", 3, backoff)).submit()

    async with worker_on(plane, plane.store):  # Its chance is always one half.
        await status_becomes(job, JobStatus.RETRY)

    assert (await job.job()).next_retry_at == plane.clock.moment() + timedelta(seconds=50)


async def test_a_cancelled_retry_is_not_started(plane: TestPlane) -> None:
    job = await failing(plane, RetryPolicy("in_place", 3, STEADY)).submit()

    await plane.work()
    await job.cancel()
    await plane.clock.advance(minutes=1)
    await plane.work()

    assert await job.status() is JobStatus.CANCELLED
    assert len(await job.runs()) == 1


async def test_each_failure_is_a_line_in_the_log_of_its_worker(plane: TestPlane) -> None:
    job = await failing(plane, RetryPolicy("in_place", 1, STEADY)).submit()

    with capture_logs() as lines:
        await plane.work()
        await plane.clock.advance(seconds=10)
        await plane.work()

    told = [line for line in lines if line["event"] == "run_failed"]
    assert [(line["log_level"], line["becomes"], line["attempt"]) for line in told] == [
        ("warning", "RETRY", 1),
        ("error", "FAILED", 2),
    ]
    assert {(line["job_id"], line["agent"]) for line in told} == {(job.id, "flaky")}
    assert told[1]["error"] == "ValueError: failure 2"
    assert "raise ValueError" in told[1]["exception"]
