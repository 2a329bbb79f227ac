"""Cortex Plane: a durable control plane for agent work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortex_plane.agents.agent import Agent
    from cortex_plane.approvals.model import Approval, Escalation
    from cortex_plane.client import Client
    from cortex_plane.durable.calls import Applied
    from cortex_plane.durable.context import Context
    from cortex_plane.errors import (
        ApprovalAltered,
        ApprovalChanged,
        BudgetExhausted,
        CheckpointCorrupted,
        CodeChanged,
        Conflict,
        CortexError,
        Denied,
        InvalidInput,
        JobCancelled,
        JobFailed,
        JobNotFound,
        JobNotQueued,
        NotFound,
        NotHeld,
        QueueBusy,
        ResultNotReady,
        StepFailed,
        StepTimedOut,
        TenantNotFound,
        ToolUncertain,
        Unavailable,
        UnknownAgent,
    )
    from cortex_plane.groups.model import GroupNotFinished, GroupStatus
    from cortex_plane.jobs.fields import Submission
    from cortex_plane.jobs.handle import JobHandle
    from cortex_plane.jobs.model import HistoryEntry, Job, JobSummary, Run
    from cortex_plane.jobs.retry import Backoff, RetryPolicy
    from cortex_plane.jobs.states import JobStatus, RunStatus, WaitReason
    from cortex_plane.plane import Plane
    from cortex_plane.queues.why import BlockedReason
    from cortex_plane.settings import Settings
    from cortex_plane.worker.failures import ApprovalDenied, DeadlineExceeded, PermanentFailure, RetryAfter, TimedOut


__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Applied",
    "Approval",
    "ApprovalAltered",
    "ApprovalChanged",
    "ApprovalDenied",
    "Backoff",
    "BlockedReason",
    "BudgetExhausted",
    "CheckpointCorrupted",
    "Client",
    "CodeChanged",
    "Conflict",
    "Context",
    "CortexError",
    "DeadlineExceeded",
    "Denied",
    "Escalation",
    "GroupNotFinished",
    "GroupStatus",
    "HistoryEntry",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobNotQueued",
    "JobStatus",
    "JobSummary",
    "NotFound",
    "NotHeld",
    "PermanentFailure",
    "Plane",
    "QueueBusy",
    "ResultNotReady",
    "RetryAfter",
    "RetryPolicy",
    "Run",
    "RunStatus",
    "Settings",
    "StepFailed",
    "StepTimedOut",
    "Submission",
    "TenantNotFound",
    "TimedOut",
    "ToolUncertain",
    "Unavailable",
    "UnknownAgent",
    "WaitReason",
]

# The module of each name. Names are imported on first use, so that `cortex --help` imports only what it needs.
_HOMES = {
    "Agent": "cortex_plane.agents.agent",
    "Approval": "cortex_plane.approvals.model",
    "ApprovalAltered": "cortex_plane.errors",
    "ApprovalChanged": "cortex_plane.errors",
    "ApprovalDenied": "cortex_plane.worker.failures",
    "Backoff": "cortex_plane.jobs.retry",
    "BudgetExhausted": "cortex_plane.errors",
    "CheckpointCorrupted": "cortex_plane.errors",
    "Client": "cortex_plane.client",
    "CodeChanged": "cortex_plane.errors",
    "Conflict": "cortex_plane.errors",
    "Context": "cortex_plane.durable.context",
    "CortexError": "cortex_plane.errors",
    "DeadlineExceeded": "cortex_plane.worker.failures",
    "Denied": "cortex_plane.errors",
    "Escalation": "cortex_plane.approvals.model",
    "GroupNotFinished": "cortex_plane.groups.model",
    "GroupStatus": "cortex_plane.groups.model",
    "Applied": "cortex_plane.durable.calls",
    "HistoryEntry": "cortex_plane.jobs.model",
    "InvalidInput": "cortex_plane.errors",
    "Job": "cortex_plane.jobs.model",
    "JobCancelled": "cortex_plane.errors",
    "JobFailed": "cortex_plane.errors",
    "JobHandle": "cortex_plane.jobs.handle",
    "JobNotFound": "cortex_plane.errors",
    "JobNotQueued": "cortex_plane.errors",
    "JobStatus": "cortex_plane.jobs.states",
    "JobSummary": "cortex_plane.jobs.model",
    "NotFound": "cortex_plane.errors",
    "NotHeld": "cortex_plane.errors",
    "PermanentFailure": "cortex_plane.worker.failures",
    "Plane": "cortex_plane.plane",
    "QueueBusy": "cortex_plane.errors",
    "BlockedReason": "cortex_plane.queues.why",
    "ResultNotReady": "cortex_plane.errors",
    "RetryAfter": "cortex_plane.worker.failures",
    "RetryPolicy": "cortex_plane.jobs.retry",
    "Run": "cortex_plane.jobs.model",
    "RunStatus": "cortex_plane.jobs.states",
    "Settings": "cortex_plane.settings",
    "StepFailed": "cortex_plane.errors",
    "StepTimedOut": "cortex_plane.errors",
    "Submission": "cortex_plane.jobs.submission",
    "TenantNotFound": "cortex_plane.errors",
    "TimedOut": "cortex_plane.worker.failures",
    "ToolUncertain": "cortex_plane.errors",
    "Unavailable": "cortex_plane.errors",
    "UnknownAgent": "cortex_plane.errors",
    "WaitReason": "cortex_plane.jobs.states",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
