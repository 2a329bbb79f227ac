"""Values of jobs, runs and history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, NewType

from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus, RunStatus, WaitReason, status_label

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
    """The checkpoint that a fork, or the successor of a job with a settled call, starts from: JSON text in normal form, with the
    id that it holds."""

    checkpoint_id: str
    document: str


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
    """For one run."""
    deadline_at: int | None = None
    deadline_seconds: float | None = None
    """For the whole job, counted from its submission; a retry counts anew."""
    job_key: str | None = None
    key_mode: KeyMode = "replace"
    serial_key: str | None = None
    tags: tuple[str, ...] = ()
    created_by: str | None = None
    submitters: tuple[str, ...] = ()
    """Who else stands behind it, signed as `created_by` is. A child's are its parent's."""
    template_id: str | None = None
    group_id: str | None = None
    schedule_id: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    parent_id: JobId | None = None
    session_id: str | None = None
    cancel_with_parent: bool = False
    effect_root: str | None = None
    """What the ids of its tool calls follow from, if not its own id."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the database holds it."""

    id: JobId
    tenant_id: TenantId
    agent_id: AgentId
    job_type: str
    queue: str
    status: JobStatus
    label: str
    """The status for people: SLEEPING, not RETRY."""
    status_text: str
    """The same in words, with what it waits for."""
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
    tries: int
    """How often its work was begun anew: attempts that failed or were lost, and the present one. Waiting does not count."""
    next_retry_at: datetime | None
    run_at: datetime | None
    deadline_at: datetime | None
    timeout_seconds: float | None
    """For one run; None: as the agent says."""
    retry_policy: RetryPolicy | None
    """None: as the agent says."""
    approval_expires_at: datetime | None
    """While it waits for approval: until when people can decide."""
    wait_reason: WaitReason | None
    run_id: RunId | None
    worker_id: WorkerId | None
    cancel_requested_at: datetime | None
    worker_job_id: int | None
    job_key: str | None
    serial_key: str | None
    retry_of: JobId | None
    retried_as: JobId | None
    parent_id: JobId | None
    group_id: str | None
    template_id: str | None
    schedule_id: str | None
    request_id: str | None
    """The request under a grant that it was started for; what it uses is charged to that grant."""
    session_id: str | None
    trace_id: str | None
    checkpoint_id: str | None
    created_by: str | None
    submitters: list[str]
    """Who else stands behind it: whoever stands behind its parent, edited or triggered its schedule, or had it run again."""
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
    label: str
    status_text: str
    priority: int
    attempt: int
    tries: int
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
    failed_runs: int = 0
    cleanup_seconds: float | None = None
    """It has an open cleanup scope, which may take so long."""
    asked_to_end: dict[str, Any] | None = None
    """It was asked to end, and is called to clean up: kind (cancel or deadline), actor, reason."""
    seconds_left: float | None = None
    """Until its deadline, when it was claimed."""
    resumes: bool = False
    """It has a checkpoint."""
    effect_root: JobId | None = None
    """The job from which the ids of tool calls follow; None: this one."""


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
    error_details: Any
    """Type, message, step and traceback of what ended the run."""
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

    @property
    def label(self) -> str:
        """The new status for people: SLEEPING, not RETRY."""
        reason = (self.metadata or {}).get("wait_reason") if self.new_status is JobStatus.RETRY else None
        known = next((known for known in WaitReason if known.value == reason), None)
        return status_label(self.new_status, known)


# -- run pages ---------------------------------------------------------------------------------
# Runs a page at a time: where a page ends is where the next one begins.


class RunPlace(NamedTuple):
    """A run's place among all of them, those of the newest jobs first."""

    job_id: JobId
    run_id: RunId


@dataclass(frozen=True, slots=True)
class RunPage:
    """`next_before` is where the next page begins; None when everything was looked at."""

    runs: list[Run]
    next_before: RunPlace | None
