"""Cortex Plane: a durable control plane for agent work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortex_plane.agents import Agent
    from cortex_plane.core.errors import (
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
        NotFound,
        NotWaiting,
        QueueBusy,
        ResultNotReady,
        StepFailed,
        StepTimedOut,
        TenantNotFound,
        ToolUncertain,
        Unavailable,
        UnknownAgent,
    )
    from cortex_plane.core.gates import Approval, Escalation
    from cortex_plane.core.groups import GroupNotFinished, GroupStatus
    from cortex_plane.core.jobs import HistoryEntry, Job, JobSummary, Run
    from cortex_plane.core.retry import Backoff, RetryPolicy
    from cortex_plane.core.states import JobStatus, RunStatus, WaitReason
    from cortex_plane.core.why import Reason
    from cortex_plane.handles import JobHandle
    from cortex_plane.operations.submit_jobs import Submission
    from cortex_plane.plane import Plane
    from cortex_plane.runtime.context import Context
    from cortex_plane.runtime.durable.tools import Happened
    from cortex_plane.runtime.failures import ApprovalDenied, PermanentFailure, RetryAfter
    from cortex_plane.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Approval",
    "ApprovalChanged",
    "ApprovalDenied",
    "Backoff",
    "BudgetExhausted",
    "CheckpointCorrupted",
    "CodeChanged",
    "Conflict",
    "Context",
    "CortexError",
    "Denied",
    "Escalation",
    "GroupNotFinished",
    "GroupStatus",
    "Happened",
    "HistoryEntry",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobStatus",
    "JobSummary",
    "NotFound",
    "NotWaiting",
    "PermanentFailure",
    "Plane",
    "QueueBusy",
    "Reason",
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
    "ToolUncertain",
    "Unavailable",
    "UnknownAgent",
    "WaitReason",
]

# Where each name lives. They are imported when they are first used, so that `cortex --help` loads nothing that it does not need.
_HOMES = {
    "Agent": "cortex_plane.agents",
    "Approval": "cortex_plane.core.gates",
    "ApprovalChanged": "cortex_plane.core.errors",
    "ApprovalDenied": "cortex_plane.runtime.failures",
    "Backoff": "cortex_plane.core.retry",
    "BudgetExhausted": "cortex_plane.core.errors",
    "CheckpointCorrupted": "cortex_plane.core.errors",
    "CodeChanged": "cortex_plane.core.errors",
    "Conflict": "cortex_plane.core.errors",
    "Context": "cortex_plane.runtime.context",
    "CortexError": "cortex_plane.core.errors",
    "Denied": "cortex_plane.core.errors",
    "Escalation": "cortex_plane.core.gates",
    "GroupNotFinished": "cortex_plane.core.groups",
    "GroupStatus": "cortex_plane.core.groups",
    "Happened": "cortex_plane.runtime.durable.tools",
    "HistoryEntry": "cortex_plane.core.jobs",
    "InvalidInput": "cortex_plane.core.errors",
    "Job": "cortex_plane.core.jobs",
    "JobCancelled": "cortex_plane.core.errors",
    "JobFailed": "cortex_plane.core.errors",
    "JobHandle": "cortex_plane.handles",
    "JobNotFound": "cortex_plane.core.errors",
    "JobStatus": "cortex_plane.core.states",
    "JobSummary": "cortex_plane.core.jobs",
    "NotFound": "cortex_plane.core.errors",
    "NotWaiting": "cortex_plane.core.errors",
    "PermanentFailure": "cortex_plane.runtime.failures",
    "Plane": "cortex_plane.plane",
    "QueueBusy": "cortex_plane.core.errors",
    "Reason": "cortex_plane.core.why",
    "ResultNotReady": "cortex_plane.core.errors",
    "RetryAfter": "cortex_plane.runtime.failures",
    "RetryPolicy": "cortex_plane.core.retry",
    "Run": "cortex_plane.core.jobs",
    "RunStatus": "cortex_plane.core.states",
    "Settings": "cortex_plane.settings",
    "StepFailed": "cortex_plane.core.errors",
    "StepTimedOut": "cortex_plane.core.errors",
    "Submission": "cortex_plane.operations.submit_jobs",
    "TenantNotFound": "cortex_plane.core.errors",
    "ToolUncertain": "cortex_plane.core.errors",
    "Unavailable": "cortex_plane.core.errors",
    "UnknownAgent": "cortex_plane.core.errors",
    "WaitReason": "cortex_plane.core.states",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
