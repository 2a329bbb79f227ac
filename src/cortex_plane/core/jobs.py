"""The values that everything speaks of: a job to submit, a job as stored, a claim, a run, a line of history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, NewType

from cortex_plane.core.retry import RetryPolicy
from cortex_plane.core.states import JobStatus, RunStatus, WaitReason

JobId = NewType("JobId", str)
RunId = NewType("RunId", str)
WorkerId = NewType("WorkerId", str)
AgentId = NewType("AgentId", str)
TenantId = NewType("TenantId", str)

KeyMode = Literal["replace", "preserve_run_at", "unsafe_dedupe"]
DEFAULT_QUEUE = "default"
INTERNAL_QUEUE = "cortex"
INTERNAL_PREFIX = "cortex."
"""The plane's own work. The gate does not stop it, and only agents whose names begin with `cortex.` run there."""
DEFAULT_TENANT = "default"
DEFAULT_TENANT_ID = TenantId("00000000-0000-7000-8000-000000000000")


@dataclass(frozen=True, slots=True)
class BornWith:
    """The checkpoint that a forked job starts from: JSON text in normal form, and the job whose blobs it refers to."""

    checkpoint_id: str
    document: str
    copy_blobs_of: JobId


@dataclass(frozen=True, slots=True)
class NewJob:
    """A checked submission. `payload` is JSON text in normal form."""

    id: JobId
    tenant_id: TenantId
    agent_id: AgentId
    job_type: str
    queue: str
    payload: str
    priority: int = 0
    max_retries: int = 3
    retry_policy: RetryPolicy | None = None
    run_at: int | None = None
    delay_seconds: float | None = None
    timeout_seconds: float | None = None
    job_key: str | None = None
    key_mode: KeyMode = "replace"
    serial_key: str | None = None
    tags: tuple[str, ...] = ()
    created_by: str | None = None
    template_id: str | None = None
    group_id: str | None = None
    schedule_id: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    parent_id: JobId | None = None
    session_id: str | None = None
    cancel_with_parent: bool = False
    checkpoint: BornWith | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the database holds it."""

    id: JobId
    tenant_id: TenantId
    agent_id: AgentId
    job_type: str
    queue: str
    status: JobStatus
    priority: int
    position: int
    payload: Any
    output: Any
    error: Any
    error_message: str | None
    retry_count: int
    max_retries: int
    attempt: int
    crash_count: int
    next_retry_at: datetime | None
    run_at: datetime | None
    wait_reason: WaitReason | None
    run_id: RunId | None
    worker_id: WorkerId | None
    worker_job_id: int | None
    job_key: str | None
    serial_key: str | None
    retry_of: JobId | None
    retried_as: JobId | None
    parent_id: JobId | None
    group_id: str | None
    template_id: str | None
    checkpoint_id: str | None
    created_by: str | None
    cost_cents: int
    tags: list[str]
    revision: int
    created_at: datetime
    queued_at: datetime
    started_at: datetime | None
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A row of a list: everything but the documents."""

    id: JobId
    job_type: str
    queue: str
    status: JobStatus
    priority: int
    attempt: int
    wait_reason: WaitReason | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class Claimed(NamedTuple):
    """A job that this worker has just claimed; `run_id` is the fence of all its writes."""

    job_id: JobId
    run_id: RunId
    job_type: str
    queue: str
    tenant_id: TenantId
    payload: Any
    attempt: int
    retry_count: int
    max_retries: int
    crash_count: int
    retry_policy: RetryPolicy | None = None
    timeout_seconds: float | None = None
    suspected: bool = False
    """Its last run died with its worker, so it was claimed with no other."""
    resumes: bool = False
    """It has a checkpoint."""


@dataclass(frozen=True, slots=True)
class Run:
    id: RunId
    job_id: JobId
    attempt: int
    worker_id: WorkerId | None
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None
    exit_code: int | None
    error: str | None
    artifacts: list[Any]
    log_path: str | None
    params_snapshot: Any


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    job_id: JobId
    revision: int
    previous_status: JobStatus | None
    new_status: JobStatus
    cause: str
    actor: str | None
    run_id: RunId | None
    metadata: Any
    created_at: datetime
