"""From rows to the values of core. The stores differ in how they hand out ids, instants and JSON; not beyond here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cortex_plane.agents.model import AgentConfig, AgentRecord
from cortex_plane.audit.model import AuditEntry, AuditRecord, Seal, StoredEntry
from cortex_plane.clock import as_datetime, instant
from cortex_plane.jobs.model import (
    AgentId,
    Claimed,
    HistoryEntry,
    Job,
    JobId,
    JobSummary,
    Run,
    RunId,
    TenantId,
    WorkerId,
)
from cortex_plane.jobs.outcomes import BrokenJob, LostRun
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus, RunStatus, WaitReason, WorkerStatus, status_label, status_text
from cortex_plane.json import loads_stored as loads
from cortex_plane.queues.model import Control, Reservation, ReservationId, ReservationStatus, Scope
from cortex_plane.retention.model import HeldBack
from cortex_plane.worker.model import WorkerRecord

if TYPE_CHECKING:
    from cortex_plane.storage.database import Row

LOOKED_AT = 10_000
"""How many runs are looked at for one answer where no job is named: there is no index over those that have ended."""


NO_DIGITS = "00000000-0000-0000-0000-000000000000"
NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"


# -- rows --------------------------------------------------------------------------------------
# From rows to the values of core. The stores differ in how they hand out ids, instants and JSON; not beyond here.


def moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else as_datetime(value)


def moment_or_none(value: Any) -> datetime | None:
    return None if value is None else moment(value)


def moment_of_text_or_none(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def json_or_none(value: Any) -> Any:
    return None if value is None else loads(value)


def text_or_none(value: Any) -> Any:
    return None if value is None else str(value)


def wait_reason(value: str | None) -> WaitReason | None:
    return None if value is None else WaitReason(value)


def _tries(row: Row) -> int:
    return row["failed_runs"] + 1 if row["attempt"] else 0


def _shown(row: Row) -> Any:
    status, reason = JobStatus(row["status"]), wait_reason(row["wait_reason"])
    since = moment_or_none(row["cancel_requested_at"])
    return {
        "label": status_label(status, reason, since),
        "status_text": status_text(
            status,
            reason,
            due_at=moment_or_none(row["next_retry_at"]),
            retry=row["retry_count"],
            max_retries=row["max_retries"],
            child_id=row["child_id"],
            cancel_requested_at=since,
        ),
    }


def output(row: Row) -> Any:
    """What a job's handler returned: in its row, or apart if it is large."""
    return json_or_none(row["output"] if row["output_content"] is None else row["output_content"])


def job(row: Row) -> Job:
    shown: dict[str, Any] = {**_shown(row), "tries": _tries(row), "output": output(row)}
    return Job(**{name: shown[name] if name in shown else read(row[name]) for name, read in JOB_COLUMNS})


def job_summary(row: Row) -> JobSummary:
    return JobSummary(
        id=JobId(str(row["id"])),
        job_type=row["job_type"],
        queue=row["queue"],
        status=JobStatus(row["status"]),
        **_shown(row),
        priority=row["priority"],
        attempt=row["attempt"],
        tries=_tries(row),
        wait_reason=wait_reason(row["wait_reason"]),
        error_message=row["error_message"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        finished_at=moment_or_none(row["finished_at"]),
    )


def policy(stored: Any) -> RetryPolicy | None:
    return None if stored is None else RetryPolicy.from_json(loads(stored))


def _same(value: Any) -> Any:
    return value


READERS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "str | None": text_or_none,
    "JobId": str,
    "JobId | None": text_or_none,
    "TenantId": str,
    "AgentId": str,
    "RunId | None": text_or_none,
    "WorkerId | None": text_or_none,
    "JobStatus": JobStatus,
    "WaitReason | None": wait_reason,
    "RetryPolicy | None": policy,
    "datetime": moment,
    "datetime | None": moment_or_none,
    "list[str]": lambda stored: json_or_none(stored) or [],
    "Any": json_or_none,
}
"""What a column becomes, by the annotation of the field; numbers stay as they are."""

JOB_COLUMNS = [(field.name, READERS.get(str(field.type), _same)) for field in fields(Job)]


def claimed(row: Row) -> Claimed:
    return Claimed(
        job_id=JobId(str(row["job_id"])),
        run_id=RunId(str(row["run_id"])),
        job_type=row["job_type"],
        queue=row["queue"],
        tenant_id=TenantId(str(row["tenant_id"])),
        payload=loads(row["payload"]),
        attempt=row["attempt"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        crash_count=row["crash_count"],
        retry_policy=policy(row["retry_policy"]),
        timeout_seconds=row["timeout_seconds"],
        failed_runs=row["failed_runs"],
        cleanup_seconds=row["cleanup_seconds"],
        asked_to_end=json_or_none(row["cancel_request"]),
        seconds_left=row["seconds_left"],
        resumes=bool(row["resumes"]),
        effect_root=text_or_none(row["effect_root"]),
    )


def lost_run(row: Row) -> LostRun:
    return LostRun(
        claimed=claimed(row),
        worker_id=WorkerId(str(row["worker_id"] or "")),
        agent=AgentConfig.from_json(loads(row["agent_config"])),
        checkpoint_id=text_or_none(row["checkpoint_id"]),
        crashed_at=text_or_none(row["crashed_at"]),
    )


def broken_job(row: Row) -> BrokenJob:
    worker_id, status = row["worker_id"], row["run_status"]
    config = AgentConfig.from_json(loads(row["agent_config"]))
    return BrokenJob(
        lost=LostRun(claimed(row), WorkerId(str(worker_id)), config),
        run_status=None if status is None else RunStatus(status),
        run_error=row["run_error"],
    )


def run(row: Row) -> Run:
    return Run(
        id=RunId(str(row["id"])),
        job_id=JobId(str(row["job_id"])),
        attempt=row["attempt"],
        worker_id=text_or_none(row["worker_id"]),
        status=RunStatus(row["status"]),
        started_at=moment(row["started_at"]),
        finished_at=moment_or_none(row["finished_at"]),
        exit_code=row["exit_code"],
        error=row["error"],
        error_details=json_or_none(row["error_details"]),
        artifacts=loads(row["artifacts"]),
        log_path=row["log_path"],
        params_snapshot=loads(row["params_snapshot"]),
    )


def history_entry(row: Row) -> HistoryEntry:
    previous = row["previous_status"]
    return HistoryEntry(
        job_id=JobId(str(row["job_id"])),
        revision=row["revision"],
        previous_status=None if previous is None else JobStatus(previous),
        new_status=JobStatus(row["new_status"]),
        cause=row["cause"],
        actor=row["actor"],
        run_id=text_or_none(row["run_id"]),
        metadata=json_or_none(row["metadata"]),
        created_at=moment(row["created_at"]),
    )


def worker(row: Row) -> WorkerRecord:
    return WorkerRecord(
        id=WorkerId(str(row["id"])),
        name=row["name"],
        status=WorkerStatus(row["status"]),
        queues=loads(row["queues"]),
        job_types=loads(row["job_types"]),
        concurrency=row["concurrency"],
        started_at=moment(row["started_at"]),
        heartbeat_at=moment(row["heartbeat_at"]),
        lease_until=moment(row["lease_until"]),
        ended_at=moment_or_none(row["ended_at"]),
        drain_asked_at=moment_or_none(row["drain_asked_at"]),
        drain_asked_by=row["drain_asked_by"],
        drain_reason=row["drain_reason"],
    )


def control(row: Row) -> Control:
    return Control(
        scope=Scope(row["scope"]),
        name=row["name"],
        paused=bool(row["paused"]),
        paused_by=row["paused_by"],
        paused_at=moment_or_none(row["paused_at"]),
        pause_reason=row["pause_reason"],
        max_running=row["max_running"],
        fair_share=bool(row["fair_share"]),
        budget_cents=row["budget_cents"],
        on_exhausted=row["on_exhausted"],
        held_until=moment_or_none(row["held_until"]),
        hold_reason=row["hold_reason"],
        updated_by=row["updated_by"],
        updated_at=moment(row["updated_at"]),
    )


def reservation(row: Row) -> Reservation:
    return Reservation(
        id=ReservationId(str(row["id"])),
        queue=row["queue"],
        job_id=JobId(str(row["job_id"])),
        reserved_by=row["reserved_by"],
        reserved_at=moment(row["reserved_at"]),
        expires_at=moment(row["expires_at"]),
        status=ReservationStatus(row["status"]),
        ended_at=moment_or_none(row["ended_at"]),
    )


def audit_record(row: Row) -> AuditRecord:
    entry = AuditEntry(
        action=row["action"],
        object_type=row["object_type"],
        object_id=row["object_id"],
        actor=row["actor"],
        reason=row["reason"],
        source=row["source"],
        tenant_id=text_or_none(row["tenant_id"]),
        details=json_or_none(row["details"]) or {},
    )
    return AuditRecord(row["seq"], moment(row["at"]), entry)


def stored_entry(row: Row) -> StoredEntry:
    return StoredEntry(
        seq=row["seq"],
        at=instant(moment(row["at"])),
        tenant_id=text_or_none(row["tenant_id"]),
        actor=row["actor"],
        action=row["action"],
        object_type=row["object_type"],
        object_id=row["object_id"],
        reason=row["reason"],
        source=row["source"],
        details=row["details"],
        salt=None if row["salt"] is None else str(row["salt"]).replace("-", ""),
        kept=row["kept"],
    )


def seal(row: Row) -> Seal:
    return Seal(
        number=row["number"],
        first_seq=row["first_seq"],
        last_seq=row["last_seq"],
        entries=row["entries"],
        fingerprints=row["fingerprints"],
        previous_digest=row["previous_digest"],
        digest=row["digest"],
        sealed_at=moment(row["sealed_at"]),
    )


def agent(row: Row) -> AgentRecord:
    return AgentRecord(AgentId(str(row["id"])), row["job_type"], AgentConfig.from_json(loads(row["skill_config"])))


def held_back(row: Row) -> HeldBack:
    return HeldBack(JobId(str(row["id"])), bool(row["needed"]), text_or_none(row["predecessor"]))
