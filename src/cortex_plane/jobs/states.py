"""The seven states of a job, the table of transitions, and how a state is shown.

The one table of what a job may become. Triggers, diagram and tests are checked against it.

PENDING ──▶ RUNNING ──▶ COMPLETED
            │  ▲  ▲
            │  │  └──── WAITING_FOR_APPROVAL ◀── RUNNING
            ▼  │
           RETRY                      FAILED and CANCELLED end every other path
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class JobStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    RETRY = "RETRY"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


class RunStatus(StrEnum):
    """A run is open while RUNNING; any other status closes it for good."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    WAITING = "WAITING"
    SLEEPING = "SLEEPING"
    INTERRUPTED = "INTERRUPTED"


class WaitReason(StrEnum):
    """Why a job is in RETRY: only `retry` costs one of its retries."""

    RETRY = "retry"
    WORKER_LOST = "worker_lost"
    INTERRUPTED = "interrupted"
    HANDED_BACK = "handed_back"
    SLEEP = "sleep"
    CHILD = "child"
    CODE_CHANGED = "code_changed"


class WorkerStatus(StrEnum):
    LIVE = "LIVE"
    LOST = "LOST"
    STOPPED = "STOPPED"


TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})

TRANSITIONS: dict[JobStatus, dict[JobStatus, str]] = {
    JobStatus.PENDING: {
        JobStatus.RUNNING: "a worker claims it",
        JobStatus.CANCELLED: "cancelled before it ran",
    },
    JobStatus.RUNNING: {
        JobStatus.COMPLETED: "the agent finished",
        JobStatus.FAILED: "it cannot be retried",
        JobStatus.WAITING_FOR_APPROVAL: "a person must decide",
        JobStatus.RETRY: "it will go on later",
        JobStatus.CANCELLED: "cancelled while it ran",
    },
    JobStatus.RETRY: {
        JobStatus.RUNNING: "a worker claims it again",
        JobStatus.CANCELLED: "cancelled while it waited",
        JobStatus.FAILED: "no retries are left",
    },
    JobStatus.WAITING_FOR_APPROVAL: {
        JobStatus.RUNNING: "approved",
        JobStatus.FAILED: "denied or expired",
        JobStatus.CANCELLED: "cancelled while it waited",
    },
    JobStatus.COMPLETED: {},
    JobStatus.FAILED: {},
    JobStatus.CANCELLED: {},
}

# How a run ends when its job leaves RUNNING.
RUN_ENDS: dict[JobStatus | WaitReason, RunStatus] = {
    JobStatus.COMPLETED: RunStatus.COMPLETED,
    JobStatus.FAILED: RunStatus.FAILED,
    JobStatus.CANCELLED: RunStatus.CANCELLED,
    JobStatus.WAITING_FOR_APPROVAL: RunStatus.WAITING,
    WaitReason.RETRY: RunStatus.FAILED,
    WaitReason.WORKER_LOST: RunStatus.FAILED,
    WaitReason.INTERRUPTED: RunStatus.INTERRUPTED,
    WaitReason.HANDED_BACK: RunStatus.INTERRUPTED,
    WaitReason.SLEEP: RunStatus.SLEEPING,
    WaitReason.CHILD: RunStatus.SLEEPING,
    WaitReason.CODE_CHANGED: RunStatus.INTERRUPTED,
}


def may_become(before: JobStatus, after: JobStatus) -> bool:
    return before is after or after in TRANSITIONS[before]


def mermaid() -> str:
    """The diagram of ARCHITECTURE.md."""
    lines = ["stateDiagram-v2", "    [*] --> PENDING : submitted"]
    for before, reachable in TRANSITIONS.items():
        lines += [f"    {before} --> {after} : {why}" for after, why in reachable.items()]
    lines += [f"    {status} --> [*]" for status in JobStatus if status.is_terminal]
    return "\n".join(lines)


# -- status text -------------------------------------------------------------------------------
# How the status of a job is shown to people: RETRY is stored for every job that goes on later, and says too little.


LABELS = {
    WaitReason.SLEEP: "SLEEPING",
    WaitReason.CHILD: "WAITING_FOR_JOB",
    WaitReason.WORKER_LOST: "RESUMING",
    WaitReason.INTERRUPTED: "RESUMING",
    WaitReason.HANDED_BACK: "RESUMING",
    WaitReason.CODE_CHANGED: "HELD",
}

TEXTS = {
    WaitReason.WORKER_LOST: "resuming: its worker was lost",
    WaitReason.INTERRUPTED: "resuming: its worker stopped",
    WaitReason.HANDED_BACK: "waiting for a worker: the one before handed it back",
    WaitReason.CODE_CHANGED: "held: its record does not fit the code",
}


def status_label(status: JobStatus, wait_reason: WaitReason | None, cancel_requested_at: datetime | None = None) -> str:
    """One word, in capitals as a status is."""
    if cancel_requested_at is not None and not status.is_terminal:
        return "CANCELLING"
    return status.value if wait_reason is None else LABELS.get(wait_reason, status.value)


def status_text(
    status: JobStatus,
    wait_reason: WaitReason | None,
    *,
    due_at: datetime | None = None,
    retry: int = 0,
    max_retries: int = 0,
    child_id: str | None = None,
    cancel_requested_at: datetime | None = None,
) -> str:
    """What the job does or waits for: "sleeping until 2026-01-05 09:00:00 UTC", "retry 2 of 3 at …"."""
    if cancel_requested_at is not None and not status.is_terminal:
        return f"cancelling since {_at(cancel_requested_at)}"
    if status is not JobStatus.RETRY or wait_reason is None:
        return status.value.lower().replace("_", " ")
    match wait_reason:
        case WaitReason.SLEEP:
            return f"sleeping until {_at(due_at)}" if due_at else "sleeping"
        case WaitReason.CHILD:
            return f"waiting for job {child_id}" if child_id else "waiting for another job"
        case WaitReason.RETRY:
            # After RetryAfter it waits without having spent a retry.
            return (f"retry {retry} of {max_retries}" if retry else "to be tried again") + (
                f" at {_at(due_at)}" if due_at else ""
            )
        case _:
            return TEXTS.get(wait_reason, wait_reason.value.replace("_", " "))


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
