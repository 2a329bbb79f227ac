"""The one table of what a job may become. Triggers, diagram and tests are checked against it.

PENDING ──▶ RUNNING ──▶ COMPLETED
            │  ▲  ▲
            │  │  └──── WAITING_FOR_APPROVAL ◀── RUNNING
            ▼  │
           RETRY                      FAILED and CANCELLED end every other path
"""

from __future__ import annotations

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
