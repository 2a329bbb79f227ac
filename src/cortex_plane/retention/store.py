"""Stores retention rules; finds and deletes what has expired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import dumps
from cortex_plane.retention.model import Candidate, ExpiredJob, RecordKind, RetentionRule, RuleId, deletable, oldest_id_after
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database, Row

DELETIONS = {
    RecordKind.WORKER: "retention/delete_worker",
    RecordKind.RESERVATION: "retention/delete_direct_reservation",
    RecordKind.SLOT: "retention/delete_schedule_run",
    RecordKind.REQUEST: "retention/delete_execution_request",
}


MOST_AT_ONCE = {"sqlite": 700, "postgres": 3_000}
"""Rows that one transaction deletes. On SQLite every other writer waits for a deletion."""


class RetentionStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.most_at_once = MOST_AT_ONCE[database.dialect]

    async def add(self, rule: RetentionRule, entry: AuditEntry) -> bool:
        """False when there is a rule for the same jobs already; then nothing is recorded."""
        return await self._database.transact(lambda: _add(rule, entry))

    async def remove(self, rule_id: RuleId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _remove(rule_id, entry))

    async def window(self, after: JobId | None, limit: int) -> list[Candidate]:
        """The next jobs after this one, oldest first."""
        return [_candidate(row) for row in await self._database.read("retention/window", after=after or NO_DIGITS, limit=limit)]

    async def delete(self, expired: Sequence[ExpiredJob], actor: str) -> int:
        """Deletes those that nothing needs any more, with an audit entry for each; returns how many."""
        return await self._database.transact(lambda: _delete(expired, actor, self._database)) if expired else 0

    async def delete_records(self, kind: RecordKind, ended_before: datetime, limit: int) -> int:
        """Deletes the oldest records of this kind, other than jobs, that ended before then; returns how many."""
        before = self._database.instant(ended_before)
        values = {"before_id": oldest_id_after(ended_before), "ended_before": before, "limit": limit}
        return len(await self._database.write(DELETIONS[kind], **values))

    async def list(self) -> list[RetentionRule]:
        return [_rule(row) for row in await self._database.read("retention/list")]


def _add(rule: RetentionRule, entry: AuditEntry) -> Transaction[bool]:
    added = yield from query(
        "retention/add",
        id=rule.id,
        tenant_id=rule.tenant_id,
        job_type=rule.job_type,
        status=rule.status,
        keep_seconds=rule.keep_seconds,
        created_by=rule.created_by,
        record=rule.record,
    )
    if added:
        yield from query("audit/record", entries=dumps([entry.to_json()]))
    return bool(added)


def _remove(rule_id: RuleId, entry: AuditEntry) -> Transaction[bool]:
    removed = yield from query("retention/remove", id=rule_id)
    if removed:
        yield from query("audit/record", entries=dumps([entry.to_json()]))
    return bool(removed)


def _delete(expired: Sequence[ExpiredJob], actor: str, database: Database) -> Transaction[int]:
    by_id = {one.job.id: one for one in expired}
    held = yield from query("retention/held_back", job_ids=database.array(by_id))
    ids = deletable([rows.held_back(row) for row in held])
    if not ids:
        return 0
    deleted = yield from query("retention/delete", job_ids=database.array(ids))
    groups = sorted({str(row["group_id"]) for row in held if row["group_id"] is not None})
    if groups:
        yield from query("retention/delete_groups", group_ids=dumps(groups))
    entries = [_deletion_entry(by_id[JobId(str(row["id"]))], actor).to_json() for row in deleted]
    if entries:
        yield from query("audit/record", entries=dumps(entries))
    return len(entries)


def _deletion_entry(gone: ExpiredJob, actor: str) -> AuditEntry:
    """One entry for each job, not for each batch: who looks for a job that is gone asks by its id."""
    job, rule = gone
    details = {
        "job_type": job.job_type,
        "status": job.status,
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
        "rule_id": rule.id,
        "keep_seconds": rule.keep_seconds,
    }
    return AuditEntry("JOB_DELETED", "job", job.id, actor, tenant_id=job.tenant_id, details=details)


def _rule(row: Row) -> RetentionRule:
    status = row["status"]
    return RetentionRule(
        id=RuleId(str(row["id"])),
        keep_seconds=row["keep_seconds"],
        tenant_id=rows.text_or_none(row["tenant_id"]),
        job_type=row["job_type"],
        status=None if status is None else JobStatus(status),
        tenant=row["tenant"],
        created_by=row["created_by"],
        created_at=rows.moment(row["created_at"]),
        record=RecordKind(row["record"]),
    )


def _candidate(row: Row) -> Candidate:
    return Candidate(
        id=JobId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        job_type=row["job_type"],
        status=JobStatus(row["status"]),
        created_at=rows.moment(row["created_at"]),
        finished_at=rows.moment_or_none(row["finished_at"]),
        looked_at=rows.moment(row["looked_at"]),
    )
