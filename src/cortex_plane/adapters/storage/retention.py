"""Rules about how long finished jobs are kept, and the deletion of those that may go."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.jobs import NO_DIGITS
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.retention import Condemned, HeldBack, LookedAt, RetentionRule, RuleId, deletable
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.json_text import dumps


class SqlRetention:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, rule: RetentionRule, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _add(rule, entry))

    async def remove(self, rule_id: RuleId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _remove(rule_id, entry))

    async def window(self, after: JobId | None, limit: int) -> list[LookedAt]:
        return [_looked_at(row) for row in await self._database.read("retention/window", after=after or NO_DIGITS, limit=limit)]

    async def delete(self, condemned: Sequence[Condemned], actor: str) -> int:
        return await self._database.transact(lambda: _delete(condemned, actor, self._database)) if condemned else 0

    async def list(self) -> list[RetentionRule]:
        return [_rule(row) for row in await self._database.read("retention/list")]


def _add(rule: RetentionRule, entry: AuditEntry) -> Script[bool]:
    added = yield from ask(
        "retention/add",
        id=rule.id,
        tenant_id=rule.tenant_id,
        job_type=rule.job_type,
        status=rule.status,
        keep_seconds=rule.keep_seconds,
        created_by=rule.created_by,
    )
    if added:
        yield from ask("audit/record", entries=dumps([entry.to_json()]))
    return bool(added)


def _remove(rule_id: RuleId, entry: AuditEntry) -> Script[bool]:
    removed = yield from ask("retention/remove", id=rule_id)
    if removed:
        yield from ask("audit/record", entries=dumps([entry.to_json()]))
    return bool(removed)


def _delete(condemned: Sequence[Condemned], actor: str, database: Database) -> Script[int]:
    by_id = {one.job.id: one for one in condemned}
    held = yield from ask("retention/held_back", job_ids=database.array(by_id))
    ids = deletable([_held_back(row) for row in held])
    if not ids:
        return 0
    deleted = yield from ask("retention/delete", job_ids=database.array(ids))
    entries = [_epitaph(by_id[JobId(str(row["id"]))], actor).to_json() for row in deleted]
    if entries:
        yield from ask("audit/record", entries=dumps(entries))
    return len(entries)


def _epitaph(gone: Condemned, actor: str) -> AuditEntry:
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
    )


def _looked_at(row: Row) -> LookedAt:
    return LookedAt(
        id=JobId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        job_type=row["job_type"],
        status=JobStatus(row["status"]),
        created_at=rows.moment(row["created_at"]),
        finished_at=rows.moment_or_none(row["finished_at"]),
        looked_at=rows.moment(row["looked_at"]),
    )


def _held_back(row: Row) -> HeldBack:
    return HeldBack(JobId(str(row["id"])), bool(row["needed"]), rows.text_or_none(row["predecessor"]))
