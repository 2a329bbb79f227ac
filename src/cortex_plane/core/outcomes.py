"""How a run ended, and what becomes of its job: pure decisions that storage applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.approvals import NewApproval
from cortex_plane.core.jobs import Claimed, JobId, RunId, WorkerId
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.core.states import JobStatus, RunStatus, WaitReason

POISONED = "POISONED"


@dataclass(frozen=True, slots=True)
class Done:
    """`output` is JSON text in normal form; `run` holds what a command leaves behind."""

    output: str | None = None
    run: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    error: dict[str, Any]
    retryable: bool = True
    run: dict[str, Any] | None = None
    delay_seconds: float | None = None
    """When to retry, where somebody has said so; None: as the backoff says."""
    note: dict[str, Any] | None = None
    """What the history says besides."""

    @property
    def message(self) -> str:
        return str(self.error.get("message") or self.error.get("type") or "failed")


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker is stopping; the job goes on elsewhere."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Claimed, never started."""


@dataclass(frozen=True, slots=True)
class Sleeping:
    """The handler waits for a time to come, without a worker."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class AwaitingChild:
    """The handler waits for another job, without a worker. Its end wakes it; the recheck is for the case that nobody does."""

    child_id: JobId
    recheck_seconds: float


@dataclass(frozen=True, slots=True)
class AwaitingApproval:
    """The handler waits for people, without a worker."""

    request: NewApproval


Outcome = Done | Failed | Interrupted | HandedBack | Sleeping | AwaitingChild | AwaitingApproval


class Transition(NamedTuple):
    """One fenced change of one job: it applies only while `run_id` is the job's open run."""

    job_id: JobId
    run_id: RunId
    status: JobStatus
    cause: str
    output: str | None = None
    error: dict[str, Any] | None = None
    error_message: str | None = None
    wait_reason: WaitReason | None = None
    delay_seconds: float | None = None
    retry_count: int = 0
    crash_count: int = 0
    note: dict[str, Any] | None = None
    cost_cents: int = 0
    checkpoint: str | None = None
    """The job's last one, as JSON text in normal form; None leaves the one that it has."""
    checkpoint_id: str | None = None
    approval: NewApproval | None = None
    """What people are asked, when the job goes to wait for them."""


@dataclass(frozen=True, slots=True)
class Chance:
    """What a decision may not invent itself: a random number from 0 to 1, and the id of a possible successor."""

    number: float
    successor: JobId


@dataclass(frozen=True, slots=True)
class LostRun:
    """An open run whose worker was declared LOST, with what is needed to decide about its job."""

    claimed: Claimed
    worker_id: WorkerId
    claimed_together: int
    agent: AgentConfig
    newest: bool = True
    """No open run of that worker is younger."""


@dataclass(frozen=True, slots=True)
class BrokenJob:
    """A job that is RUNNING though its run is closed, or missing (`run_status` is None)."""

    lost: LostRun
    run_status: RunStatus | None
    run_error: str | None


def after_run(claimed: Claimed, outcome: Outcome, policy: RetryPolicy, chance: Chance) -> Transition:
    match outcome:
        case Done(output, run):
            return _change(claimed, JobStatus.COMPLETED, "complete", output=output, note=_note(run=run))
        case Failed():
            return _retry_or_give_up(claimed, outcome, policy, chance)
        case Interrupted():
            return _wait(claimed, WaitReason.INTERRUPTED, "interrupt")
        case HandedBack():
            return _wait(claimed, WaitReason.HANDED_BACK, "hand_back")
        case Sleeping(delay_seconds):
            return _wait(claimed, WaitReason.SLEEP, "sleep", delay_seconds=delay_seconds)
        case AwaitingChild(child_id, recheck_seconds):
            return _wait(claimed, WaitReason.CHILD, "call", delay_seconds=recheck_seconds, note={"child": child_id})
        case AwaitingApproval(request):
            note = {"approval_request_id": request.id}
            return _change(claimed, JobStatus.WAITING_FOR_APPROVAL, "ask", note=note)._replace(approval=request)
        case unknown:
            assert_never(unknown)


def after_crash(lost: LostRun, chance: Chance) -> Transition:
    """Only the crash of a run that was claimed alone counts, and only against the newest of its worker: who in a batch
    was guilty, nobody knows, and those that ran for longer were there when nothing happened."""
    if lost.agent.on_crash == "fail":
        failed = Failed({"type": "WorkerLost", "message": "Scheduler crash recovery"})
        policy = _chained(lost.claimed.retry_policy or lost.agent.retry)
        return _retry_or_give_up(lost.claimed, failed, policy, chance, cause="rescue")
    crashes = lost.claimed.crash_count + (lost.claimed_together == 1 and lost.newest)
    if crashes >= lost.agent.crash_limit:
        return _poisoned(lost.claimed, crashes)
    error = {"type": "WorkerLost", "message": "worker lost"}
    return _wait(lost.claimed, WaitReason.WORKER_LOST, "rescue", error=error, crash_count=crashes)


def after_closed_run(job: BrokenJob, status: RunStatus) -> Transition:
    """The job takes the outcome of its run; a run that only paused lets it go on."""
    claimed = job.lost.claimed
    match status:
        case RunStatus.COMPLETED:
            return _change(claimed, JobStatus.COMPLETED, "repair")
        case RunStatus.FAILED:
            failed = Failed({"type": "Repaired", "message": job.run_error or "failed"}, retryable=False)
            return _give_up(claimed, failed, "repair", note=None)
        case RunStatus.CANCELLED | RunStatus.SKIPPED:
            return _change(claimed, JobStatus.CANCELLED, "repair")
        case RunStatus.WAITING | RunStatus.SLEEPING | RunStatus.INTERRUPTED | RunStatus.RUNNING:
            return _wait(claimed, WaitReason.INTERRUPTED, "repair")
        case unknown:
            assert_never(unknown)


def _retry_or_give_up(claimed: Claimed, failed: Failed, policy: RetryPolicy, chance: Chance, cause: str = "fail") -> Transition:
    if not failed.retryable:
        return _give_up(claimed, failed, cause, note=_note(run=failed.run, **(failed.note or {})))
    if claimed.retry_count >= claimed.max_retries:
        return _give_up(claimed, failed, cause, note=_note(run=failed.run, exhausted=True))
    delay = failed.delay_seconds
    if delay is None:
        delay = policy.backoff.delay_seconds(claimed.retry_count, chance.number)
    if policy.mode == "chain":
        note = _note(run=failed.run, retry_as=chance.successor, retry_delay_seconds=delay)
        return _give_up(claimed, failed, cause, note=note)
    return _change(
        claimed,
        JobStatus.RETRY,
        cause,
        error=failed.error,
        wait_reason=WaitReason.RETRY,
        delay_seconds=delay,
        retry_count=claimed.retry_count + 1,
        note=_note(run=failed.run),
    )


def _give_up(claimed: Claimed, failed: Failed, cause: str, note: dict[str, Any] | None) -> Transition:
    return _change(claimed, JobStatus.FAILED, cause, error=failed.error, error_message=failed.message, note=note)


def is_poisoned(transition: Transition) -> bool:
    return transition.error is not None and transition.error.get("type") == POISONED


def _poisoned(claimed: Claimed, crashes: int) -> Transition:
    message = f"{POISONED}: {crashes} workers died while they ran this job. Find out why before you retry it."
    error = {"type": POISONED, "message": message}
    return _change(claimed, JobStatus.FAILED, "rescue", error=error, error_message=message, crash_count=crashes)


def _wait(
    claimed: Claimed,
    reason: WaitReason,
    cause: str,
    error: dict[str, Any] | None = None,
    crash_count: int | None = None,
    delay_seconds: float = 0.0,
    note: dict[str, Any] | None = None,
) -> Transition:
    """No retry is spent."""
    return _change(
        claimed,
        JobStatus.RETRY,
        cause,
        error=error,
        wait_reason=reason,
        delay_seconds=delay_seconds,
        crash_count=crash_count,
        note=note,
    )


def _change(
    claimed: Claimed,
    status: JobStatus,
    cause: str,
    *,
    output: str | None = None,
    error: dict[str, Any] | None = None,
    error_message: str | None = None,
    wait_reason: WaitReason | None = None,
    delay_seconds: float | None = None,
    retry_count: int | None = None,
    crash_count: int | None = None,
    note: dict[str, Any] | None = None,
) -> Transition:
    return Transition(
        job_id=claimed.job_id,
        run_id=claimed.run_id,
        status=status,
        cause=cause,
        output=output,
        error=error,
        error_message=error_message,
        wait_reason=wait_reason,
        delay_seconds=delay_seconds,
        retry_count=claimed.retry_count if retry_count is None else retry_count,
        crash_count=claimed.crash_count if crash_count is None else crash_count,
        note=note,
    )


def _chained(policy: RetryPolicy) -> RetryPolicy:
    return RetryPolicy(mode="chain", max_retries=policy.max_retries, backoff=policy.backoff)


def _note(**details: Any) -> dict[str, Any] | None:
    return {name: value for name, value in details.items() if value is not None} or None
