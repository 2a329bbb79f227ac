"""Cortex Plane: a durable control plane for agent work."""

from cortex_plane.agents import Agent
from cortex_plane.core.errors import (
    Conflict,
    CortexError,
    Denied,
    InvalidInput,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NotFound,
    ResultNotReady,
    Unavailable,
    UnknownAgent,
)
from cortex_plane.core.jobs import HistoryEntry, Job, JobSummary, Run
from cortex_plane.core.retry import Backoff, RetryPolicy
from cortex_plane.core.states import JobStatus, RunStatus, WaitReason
from cortex_plane.handles import JobHandle
from cortex_plane.operations.submit_jobs import Submission
from cortex_plane.plane import Plane
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.failures import PermanentFailure
from cortex_plane.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Backoff",
    "Conflict",
    "Context",
    "CortexError",
    "Denied",
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
    "PermanentFailure",
    "Plane",
    "ResultNotReady",
    "RetryPolicy",
    "Run",
    "RunStatus",
    "Settings",
    "Submission",
    "Unavailable",
    "UnknownAgent",
    "WaitReason",
]
