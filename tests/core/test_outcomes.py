"""What becomes of a job when its run ends, or when its worker vanishes: tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.agents.model import AgentConfig
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, Claimed, JobId, RunId, WorkerId
from cortex_plane.jobs.outcomes import (
    Chance,
    Done,
    Failed,
    HandedBack,
    Interrupted,
    LostRun,
    Outcome,
    Transition,
    Wait,
    after_crash,
    after_run,
    is_suspect,
)
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import TRANSITIONS, JobStatus, WaitReason

JOB, RUN, NEXT = JobId("job"), RunId("run"), JobId("successor")
CHANCE = Chance(0.5, NEXT)
IN_PLACE = RetryPolicy(mode="in_place")
CHAIN = RetryPolicy(mode="chain")
BOOM = Failed({"type": "ValueError", "message": "boom"})
FATAL = replace(BOOM, retryable=False)
PROGRAM = {"exit_code": 3, "log_path": "a.log", "artifacts": []}


def claimed(retry_count: int = 0, max_retries: int = 3, crash_count: int = 0, policy: RetryPolicy | None = None) -> Claimed:
    return Claimed(JOB, RUN, "echo", "default", DEFAULT_TENANT_ID, {}, 1, retry_count, max_retries, crash_count, policy)


def what(transition: Transition) -> tuple[Any, ...]:
    return (
        str(transition.status),
        transition.cause,
        transition.wait_reason,
        transition.delay_seconds,
        transition.retry_count,
        transition.crash_count,
        transition.note,
    )


# outcome, policy, retry_count, max_retries; then status, cause, wait_reason, delay, retry_count, crash_count, note
RUNS = [
    (Done("1"), IN_PLACE, 0, 3, ("COMPLETED", "complete", None, None, 0, 2, None)),
    (Done("1"), CHAIN, 3, 3, ("COMPLETED", "complete", None, None, 3, 2, None)),
    (Done("1", PROGRAM), IN_PLACE, 1, 3, ("COMPLETED", "complete", None, None, 1, 2, {"run": PROGRAM})),
    (BOOM, IN_PLACE, 0, 3, ("RETRY", "fail", "retry", 0.5, 1, 2, None)),
    (BOOM, IN_PLACE, 2, 3, ("RETRY", "fail", "retry", 2.0, 3, 2, None)),
    (BOOM, IN_PLACE, 3, 3, ("FAILED", "fail", None, None, 3, 2, {"exhausted": True})),
    (BOOM, IN_PLACE, 0, 0, ("FAILED", "fail", None, None, 0, 2, {"exhausted": True})),
    (replace(BOOM, delay_seconds=60.0), IN_PLACE, 0, 3, ("RETRY", "fail", "retry", 60.0, 1, 2, None)),
    (replace(BOOM, delay_seconds=0.0), IN_PLACE, 2, 3, ("RETRY", "fail", "retry", 2.0, 3, 2, None)),
    (replace(BOOM, waits=Wait(60.0, "job", "busy")), IN_PLACE, 2, 3, ("RETRY", "fail", "retry", 60.0, 2, 2, None)),
    (replace(BOOM, waits=Wait(0.0, "job", "busy")), IN_PLACE, 2, 3, ("RETRY", "fail", "retry", 2.0, 2, 2, None)),
    (
        replace(BOOM, delay_seconds=0.0),
        CHAIN,
        2,
        3,
        ("FAILED", "fail", None, None, 2, 2, {"retry_as": NEXT, "retry_delay_seconds": 2.0}),
    ),
    (replace(BOOM, run=PROGRAM), IN_PLACE, 0, 3, ("RETRY", "fail", "retry", 0.5, 1, 2, {"run": PROGRAM})),
    (replace(BOOM, run=PROGRAM), IN_PLACE, 3, 3, ("FAILED", "fail", None, None, 3, 2, {"run": PROGRAM, "exhausted": True})),
    (BOOM, CHAIN, 0, 3, ("FAILED", "fail", None, None, 0, 2, {"retry_as": NEXT, "retry_delay_seconds": 0.5})),
    (BOOM, CHAIN, 2, 3, ("FAILED", "fail", None, None, 2, 2, {"retry_as": NEXT, "retry_delay_seconds": 2.0})),
    (BOOM, CHAIN, 3, 3, ("FAILED", "fail", None, None, 3, 2, {"exhausted": True})),
    (FATAL, IN_PLACE, 0, 3, ("FAILED", "fail", None, None, 0, 2, None)),
    (FATAL, CHAIN, 0, 3, ("FAILED", "fail", None, None, 0, 2, None)),
    (FATAL, IN_PLACE, 3, 3, ("FAILED", "fail", None, None, 3, 2, None)),
    (Interrupted(), IN_PLACE, 0, 3, ("RETRY", "interrupt", "interrupted", 0.0, 0, 2, None)),
    (Interrupted(), CHAIN, 3, 3, ("RETRY", "interrupt", "interrupted", 0.0, 3, 2, None)),
    (HandedBack(), IN_PLACE, 0, 0, ("RETRY", "hand_back", "handed_back", 0.0, 0, 2, None)),
    (HandedBack(), CHAIN, 3, 3, ("RETRY", "hand_back", "handed_back", 0.0, 3, 2, None)),
]


@pytest.mark.parametrize(("outcome", "policy", "retry_count", "max_retries", "expected"), RUNS)
def test_after_a_run(
    outcome: Outcome, policy: RetryPolicy, retry_count: int, max_retries: int, expected: tuple[Any, ...]
) -> None:
    transition = after_run(claimed(retry_count, max_retries, crash_count=2), outcome, policy, CHANCE)

    assert what(transition) == expected
    assert (transition.job_id, transition.run_id) == (JOB, RUN)


# on_crash, policy, crash_count, proved, retry_count -> status, wait_reason, crash_count, note, message
CRASHES = [
    ("resume", IN_PLACE, 0, False, 0, "RETRY", "worker_lost", 1, None, "worker lost"),
    ("resume", CHAIN, 0, False, 3, "RETRY", "worker_lost", 1, None, "worker lost"),
    ("resume", IN_PLACE, 1, False, 0, "RETRY", "worker_lost", 2, None, "worker lost"),
    ("resume", IN_PLACE, 2, False, 0, "RETRY", "worker_lost", 3, None, "worker lost"),
    ("resume", IN_PLACE, 2, True, 0, "FAILED", None, 3, None, "alone in a process of its own"),
    ("resume", IN_PLACE, 1, True, 0, "RETRY", "worker_lost", 2, None, "worker lost"),
    ("resume", IN_PLACE, 8, False, 0, "RETRY", "worker_lost", 9, None, "worker lost"),
    ("resume", IN_PLACE, 9, False, 0, "FAILED", None, 10, None, "none of which could run it in a process of its own"),
    (
        "fail",
        IN_PLACE,
        0,
        False,
        0,
        "FAILED",
        None,
        0,
        {"retry_as": NEXT, "retry_delay_seconds": 0.5},
        "Scheduler crash recovery",
    ),
    ("fail", CHAIN, 0, True, 1, "FAILED", None, 0, {"retry_as": NEXT, "retry_delay_seconds": 1.0}, "Scheduler crash recovery"),
    ("fail", IN_PLACE, 0, False, 3, "FAILED", None, 0, {"exhausted": True}, "Scheduler crash recovery"),
    ("fail", CHAIN, 0, False, 3, "FAILED", None, 0, {"exhausted": True}, "Scheduler crash recovery"),
]


@pytest.mark.parametrize(
    ("on_crash", "policy", "crash_count", "proved", "retry_count", "status", "reason", "crashes", "note", "message"), CRASHES
)
def test_after_a_crash(
    on_crash: Any,
    policy: RetryPolicy,
    crash_count: int,
    proved: bool,
    retry_count: int,
    status: str,
    reason: str | None,
    crashes: int,
    note: Any,
    message: str,
) -> None:
    run = claimed(retry_count, crash_count=crash_count)
    lost = LostRun(run, WorkerId("worker"), AgentConfig(retry=policy, on_crash=on_crash))
    transition = after_crash(lost, CHANCE, proved=proved)

    assert (transition.status, transition.wait_reason, transition.note) == (status, reason, note)
    assert (transition.cause, transition.retry_count, transition.crash_count) == ("rescue", retry_count, crashes)
    assert message in (transition.error or {})["message"]
    assert transition.delay_seconds == (0.0 if status == "RETRY" else None)


def test_a_policy_of_the_job_goes_before_that_of_its_agent_after_a_crash() -> None:
    own = RetryPolicy(backoff=Backoff(base_seconds=60, jitter=False))
    lost = LostRun(claimed(policy=own), WorkerId("worker"), AgentConfig(on_crash="fail"))

    assert (after_crash(lost, CHANCE).note or {})["retry_delay_seconds"] == 60


def test_a_checkpoint_since_the_last_crash_begins_the_count_anew() -> None:
    run = claimed(crash_count=2)
    stuck = LostRun(run, WorkerId("worker"), AgentConfig(), checkpoint_id="a", crashed_at="a")
    advanced = LostRun(run, WorkerId("worker"), AgentConfig(), checkpoint_id="b", crashed_at="a")

    assert after_crash(stuck, CHANCE, proved=True).status is JobStatus.FAILED
    transition = after_crash(advanced, CHANCE, proved=True)
    assert (transition.status, transition.crash_count) == (JobStatus.RETRY, 1)
    assert (transition.error or {})["checkpoint_id"] == "b"


@pytest.mark.parametrize("proved", [False, True])
@pytest.mark.parametrize(("crashes_before", "pause"), [(0, 0.0), (1, 5.0), (2, 10.0), (50, 900.0)])
def test_a_job_of_the_planes_own_is_never_poisoned_but_waits_longer(crashes_before: int, pause: float, proved: bool) -> None:
    run = claimed(crash_count=crashes_before)._replace(job_type="cortex.notify")
    policy = RetryPolicy(backoff=Backoff(base_seconds=5.0, max_seconds=900.0))
    transition = after_crash(LostRun(run, WorkerId("worker"), AgentConfig(retry=policy)), CHANCE, proved=proved)

    assert (transition.status, transition.wait_reason) == (JobStatus.RETRY, WaitReason.WORKER_LOST)
    assert (transition.delay_seconds, transition.retry_count) == (pause, 0)


def test_the_crash_limit_is_the_agents() -> None:
    lost = LostRun(claimed(), WorkerId("worker"), AgentConfig(crash_limit=1))

    assert after_crash(lost, CHANCE, proved=True).status is JobStatus.FAILED


@pytest.mark.parametrize(
    ("crashes", "limit", "suspect"), [(0, 3, False), (1, 3, False), (2, 3, True), (1, 1, True), (2, 9, True)]
)
def test_a_job_is_suspect_after_two_crashes_or_as_many_as_its_agent_allows(crashes: int, limit: int, suspect: bool) -> None:
    assert is_suspect(crashes, limit) is suspect


@pytest.mark.parametrize(
    ("error", "message"),
    [({"message": "boom"}, "boom"), ({"type": "KeyError", "message": ""}, "KeyError"), ({}, "failed"), ({"message": 7}, "7")],
)
def test_a_failure_always_has_a_message(error: dict[str, Any], message: str) -> None:
    assert after_run(claimed(max_retries=0), Failed(error), IN_PLACE, CHANCE).error_message == message


failures = st.builds(
    Failed, error=st.just({"message": "boom"}), retryable=st.booleans(), run=st.none() | st.just({"exit_code": 1})
)
outcomes = st.just(Done("1")) | failures | st.just(Interrupted()) | st.just(HandedBack())
policies = st.builds(RetryPolicy, mode=st.sampled_from(["in_place", "chain"]))


@given(outcome=outcomes, policy=policies, used=st.integers(0, 100), spare=st.integers(0, 100), chance=st.floats(0, 1))
def test_whatever_happens_the_database_will_accept_it(
    outcome: Outcome, policy: RetryPolicy, used: int, spare: int, chance: float
) -> None:
    most = min(100, used + spare)
    transition = after_run(claimed(used, most), outcome, policy, Chance(chance, NEXT))

    assert transition.status in TRANSITIONS[JobStatus.RUNNING]
    assert used <= transition.retry_count <= most
    assert (transition.status is JobStatus.FAILED) == (transition.error_message is not None)
    assert (transition.status is JobStatus.RETRY) == (transition.wait_reason is not None)
    assert (transition.status is JobStatus.RETRY) == (transition.delay_seconds is not None)
    assert transition.retry_count == used + (transition.wait_reason is WaitReason.RETRY)
    assert "retry_as" not in (transition.note or {}) or used < most
