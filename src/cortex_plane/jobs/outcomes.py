"""How a run ended, and what becomes of its job: pure decisions that storage applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

from cortex_plane.agents.model import AgentConfig
from cortex_plane.approvals.model import NewApproval
from cortex_plane.durable.schema import Blob
from cortex_plane.jobs.model import INTERNAL_PREFIX, Claimed, JobId, RunId, WorkerId
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus, RunStatus, WaitReason
from cortex_plane.queues.model import HoldScope

POISONED = "POISONED"
SUSPECT_AFTER = 2
UNPROVED_LIMIT = 10
"""Workers that may die in a row under a job that could not be tried in a process of its own."""


@dataclass(frozen=True, slots=True)
class Done:
    """`output` is JSON text in normal form; `run` holds what a command leaves behind."""

    output: str | None = None
    run: dict[str, Any] | None = None
    large_output: Blob | None = None
    """In place of an output that is too large for the job's row."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A service said when to come back. It spends no retry; `scope` says who else waits."""

    seconds: float
    scope: HoldScope
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    error: dict[str, Any]
    retryable: bool = True
    run: dict[str, Any] | None = None
    delay_seconds: float | None = None
    """How long a service asks to be left alone. The backoff is the floor: `Retry-After: 0` must not spend all retries at once."""
    note: dict[str, Any] | None = None
    """What the history says besides."""
    waits: Wait | None = None

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
class Held:
    """The record does not fit this worker's code. The job waits for a worker that has other code."""

    error: dict[str, Any]
    """Where they differ; `step` names the call."""
    code: str
    """The fingerprint of the code."""
    delay_seconds: float
    handed_back: bool = False
    """That the code does not fit was known before; the handler was not called."""
    again: bool = False
    """It was known before, and found again."""


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


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler was asked to end, and has cleaned up. `note` is for the history: reason, who asked, what it raised."""

    note: dict[str, Any] | None = None


Outcome = Cancelled | Done | Failed | Interrupted | HandedBack | Held | Sleeping | AwaitingChild | AwaitingApproval


class Transition(NamedTuple):
    """One fenced change of one job: it applies only while `run_id` is the job's open run."""

    job_id: JobId
    run_id: RunId
    status: JobStatus
    cause: str
    output: str | None = None
    large_output: Blob | None = None
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
    """An open run whose process died, with what is needed to decide about its job."""

    claimed: Claimed
    worker_id: WorkerId
    agent: AgentConfig
    checkpoint_id: str | None = None
    crashed_at: str | None = None
    """The checkpoint that it had when its process died the last time."""

    @property
    def crashes(self) -> int:
        """In a row, this one included. A checkpoint that was written since the last one is progress, and begins a new row."""
        return 1 if self.checkpoint_id != self.crashed_at else self.claimed.crash_count + 1


@dataclass(frozen=True, slots=True)
class BrokenJob:
    """A job that is RUNNING though its run is closed, or missing (`run_status` is None)."""

    lost: LostRun
    run_status: RunStatus | None
    run_error: str | None


def after_run(claimed: Claimed, outcome: Outcome, policy: RetryPolicy, chance: Chance) -> Transition:
    match outcome:
        case Done(output, run, large):
            return _change(claimed, JobStatus.COMPLETED, "complete", output=output, large_output=large, note=_note(run=run))
        case Failed():
            return _retry_or_give_up(claimed, outcome, policy, chance)
        case Cancelled(note):
            return _change(claimed, JobStatus.CANCELLED, "cancel", note=note)
        case Interrupted():
            return _wait(claimed, WaitReason.INTERRUPTED, "interrupt")
        case HandedBack():
            return _wait(claimed, WaitReason.HANDED_BACK, "hand_back")
        case Held(error, code, delay_seconds, handed_back, again):
            note = _note(code=code, step=error.get("step"), handed_back=handed_back or None, again=again or None)
            return _wait(claimed, WaitReason.CODE_CHANGED, "hold", error=error, delay_seconds=delay_seconds, note=note)
        case Sleeping(delay_seconds):
            return _wait(claimed, WaitReason.SLEEP, "sleep", delay_seconds=delay_seconds)
        case AwaitingChild(child_id, recheck_seconds):
            return _wait(claimed, WaitReason.CHILD, "call", delay_seconds=recheck_seconds, note={"child": child_id})
        case AwaitingApproval(request):
            note = {"approval_request_id": request.id}
            return _change(claimed, JobStatus.WAITING_FOR_APPROVAL, "ask", note=note)._replace(approval=request)
        case unknown:
            assert_never(unknown)


def after_crash(lost: LostRun, chance: Chance, *, proved: bool = False) -> Transition:
    """The jobs of a dead worker go on at once. That it died only makes them suspect: which of them was guilty, nobody knows.
    `proved`: the job was alone in a process of its own, and that died.
    The plane's own jobs are never POISONED: nobody would look at them. From the second crash
    in a row they wait for their backoff."""
    if lost.agent.on_crash == "fail" and lost.claimed.asked_to_end is None:
        failed = Failed({"type": "WorkerLost", "message": "Scheduler crash recovery"})
        policy = _chained(lost.claimed.retry_policy or lost.agent.retry)
        return _retry_or_give_up(lost.claimed, failed, policy, chance, cause="rescue")
    crashes = lost.crashes
    if lost.claimed.asked_to_end is not None and (lost.agent.on_crash == "fail" or crashes >= lost.agent.crash_limit):
        note = {"cleanup": "its worker died in it"}
        return _change(lost.claimed, JobStatus.CANCELLED, "cancel", note=note, crash_count=crashes)
    own = lost.claimed.job_type.startswith(INTERNAL_PREFIX)
    if not own and crashes >= (lost.agent.crash_limit if proved else max(lost.agent.crash_limit, UNPROVED_LIMIT)):
        return _poisoned(lost.claimed, crashes, proved)
    error = {"type": "WorkerLost", "message": "worker lost", "checkpoint_id": lost.checkpoint_id}
    pause = lost.agent.retry.backoff.ceiling_seconds(crashes - SUSPECT_AFTER) if own and crashes >= SUSPECT_AFTER else 0.0
    return _wait(lost.claimed, WaitReason.WORKER_LOST, "rescue", error=error, crash_count=crashes, delay_seconds=pause)


def is_suspect(crash_count: int, crash_limit: int) -> bool:
    """After so many crashes without progress a job runs in a process of its own."""
    return crash_count >= min(SUSPECT_AFTER, crash_limit)


def after_stranding(claimed: Claimed) -> Transition:
    """Of a run that no worker owns: nothing was done in it, so the job pays nothing."""
    return _wait(claimed, WaitReason.INTERRUPTED, "repair")


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
    backoff = policy.backoff.delay_seconds(claimed.retry_count, chance.number)
    if failed.retryable and failed.waits is not None:
        delay = max(backoff, failed.waits.seconds)
        return _wait(claimed, WaitReason.RETRY, cause, error=failed.error, delay_seconds=delay, note=_note(run=failed.run))
    if not failed.retryable:
        return _give_up(claimed, failed, cause, note=_note(run=failed.run, **(failed.note or {})))
    if claimed.retry_count >= claimed.max_retries:
        return _give_up(claimed, failed, cause, note=_note(run=failed.run, exhausted=True))
    delay = max(backoff, failed.delay_seconds or 0.0)
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


def is_tried_again(transition: Transition) -> bool:
    """In place, or by a linked job."""
    return transition.status is JobStatus.RETRY or bool(transition.note and "retry_as" in transition.note)


def _poisoned(claimed: Claimed, crashes: int, proved: bool) -> Transition:
    where = "the last time alone in a process of its own" if proved else "none of which could run it in a process of its own"
    message = f"{POISONED}: {crashes} processes in a row died while they ran this job, {where}. Find out why before you retry it."
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
    large_output: Blob | None = None,
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
        large_output=large_output,
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
