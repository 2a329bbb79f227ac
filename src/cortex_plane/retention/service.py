"""`plane.retention`: rules, and the pruning of jobs and records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from cortex_plane.audit.model import AuditEntry
from cortex_plane.audit.pruning import prune_audit
from cortex_plane.errors import AmbiguousRule, RuleExists, RuleNotFound
from cortex_plane.jobs.model import JobId
from cortex_plane.retention.model import (
    RecordKind,
    RetentionRule,
    RuleId,
    check_keep,
    check_record,
    check_status,
    expired_jobs,
    kept_seconds,
    too_young,
)

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.states import JobStatus
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def add_rule(
    store: Store,
    directory: Directory,
    new_id: NewId,
    keep: float | timedelta,
    *,
    tenant: str | None = None,
    agent: str | None = None,
    status: JobStatus | str | None = None,
    record: RecordKind | str = RecordKind.JOB,
    actor: str | None = None,
    reason: str | None = None,
) -> RetentionRule:
    """Jobs, or other records, are deleted so long after their end. What is left out holds for all; the most specific holds."""
    kind = check_record(record, tenant=tenant, agent=agent, status=status)
    rule = RetentionRule(
        id=RuleId(new_id()),
        keep_seconds=check_keep(keep),
        tenant_id=None if tenant is None else await directory.tenant(tenant),
        job_type=None if agent is None else (await directory.agent(agent)).job_type,
        status=check_status(status),
        tenant=tenant,
        created_by=actor,
        record=kind,
    )
    added = await store.retention.add(rule, _entry("RETENTION_RULE_ADDED", rule, actor, reason))
    found = next((one for one in await store.retention.list() if one.id == rule.id), None)
    if found is None:
        raise RuleExists if not added else RuleNotFound(rule.id)
    return found


async def remove_rule(store: Store, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> RetentionRule:
    rule = rule_named(id_or_prefix, await store.retention.list())
    if not await store.retention.remove(rule.id, _entry("RETENTION_RULE_REMOVED", rule, actor, reason)):
        raise RuleNotFound(id_or_prefix)
    return rule


def rule_named(id_or_prefix: str, rules: Sequence[RetentionRule]) -> RetentionRule:
    """By its id, or by the first part of one."""
    prefix = id_or_prefix.strip().lower()
    found = [rule for rule in rules if prefix and rule.id.startswith(prefix)]
    if len(found) > 1:
        raise AmbiguousRule(prefix, [rule.id for rule in found])
    if not found:
        raise RuleNotFound(id_or_prefix)
    return found[0]


def _entry(action: str, rule: RetentionRule, actor: str | None, reason: str | None) -> AuditEntry:
    details = {"keep_seconds": rule.keep_seconds, "job_type": rule.job_type, "status": rule.status, "record": rule.record}
    return AuditEntry(action, "retention_rule", rule.id, actor, reason, tenant_id=rule.tenant_id, details=details)


# -- prune jobs --------------------------------------------------------------------------------
# Deletes finished jobs that the retention rules no longer keep, one small batch at a time, oldest first.
#
# Ids sort by age, so a pass walks them from the oldest, and each batch goes on where the last one ended. A pass is over
# when it
# comes to jobs that are too young for any rule, or to the end.


BATCH = 500
LOOKED_AT = 1000
ACTOR = "retention"


class Pruned(NamedTuple):
    deleted: int
    after: JobId | None
    """Where the next batch begins; None when the pass is over."""


async def prune_jobs(store: Store, after: JobId | None = None, *, actor: str = ACTOR, batch: int | None = None) -> Pruned:
    """Looks at some jobs and deletes at most `batch` (500) of them. Runs and history go with a job; its entries in the audit
    log, its key and what it has cost stay. A job that something live may still ask for is passed over until the next time."""
    most = batch or BATCH
    looked_at = max(LOOKED_AT, most)
    rules = [rule for rule in await store.retention.list() if rule.record is RecordKind.JOB]
    jobs = await store.retention.window(after, looked_at) if rules else []
    if not jobs:
        return Pruned(0, None)
    expired = expired_jobs(rules, jobs)
    deleted = await store.retention.delete(expired[:most], actor)
    if len(expired) > most:
        return Pruned(deleted, expired[most - 1].job.id)
    return Pruned(deleted, None if len(jobs) < looked_at or too_young(rules, jobs) else jobs[-1].id)


# -- prune records -----------------------------------------------------------------------------
# Deletes records other than jobs that are no longer kept, one small batch of each kind at a time, oldest first.
#
# Each batch is read from the old end of an index, so it costs what is due, not what there is.


OTHERS = tuple(kind for kind in RecordKind if kind not in (RecordKind.JOB, RecordKind.AUDIT))


async def prune_records(store: Store, *, actor: str = ACTOR, exported_to: str = "", at_once: bool = False) -> int:
    """How many were deleted; there may be more while there are any. `exported_to` is the target of exported seals, `at_once` does
    not wait for a full batch of the audit log."""
    rules = await store.retention.list()
    now = datetime.fromtimestamp((await store.workers.now()) / 1_000_000, UTC)
    deleted = 0
    for kind in OTHERS:
        kept = kept_seconds(rules, kind)
        if kept is not None:
            deleted += await store.retention.delete_records(kind, now - timedelta(seconds=kept), BATCH)
    for rule in rules:
        if rule.record is RecordKind.AUDIT:
            deleted += await prune_audit(store, rule, now, actor=actor, exported_to=exported_to, at_once=at_once)
    return deleted


# -- retention ---------------------------------------------------------------------------------
# How long finished jobs are kept: `plane.retention`. Without a rule, for ever.


class RetentionService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self,
        keep: float | timedelta,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: JobStatus | str | None = None,
        record: RecordKind | str = RecordKind.JOB,
        actor: str | None = None,
        reason: str | None = None,
    ) -> RetentionRule:
        """Jobs are deleted so long after their end. What is left out holds for all; the most specific rule wins. `record` is the
        table of other records: worker, direct_reservation, schedule_run, execution_request or audit_log."""
        return await add_rule(
            self._plane.store,
            self._plane.directory,
            self._plane._ids,
            keep,
            tenant=tenant,
            agent=agent,
            status=status,
            record=record,
            actor=actor,
            reason=reason,
        )

    async def list(self) -> list[RetentionRule]:
        return await self._plane.store.retention.list()

    async def remove(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> RetentionRule:
        return await remove_rule(self._plane.store, id_or_prefix, actor=actor, reason=reason)

    async def run(self, *, actor: str = ACTOR) -> int:
        """One pass now, instead of waiting for a worker's; returns how many jobs were deleted. Other records go too."""
        store = self._plane.store
        exported_to = self._plane.settings.seal_export
        while await prune_records(store, actor=actor, exported_to=exported_to, at_once=True):
            pass
        deleted, after = 0, None
        while True:
            batch = await prune_jobs(store, after, actor=actor)
            deleted += batch.deleted
            after = batch.after
            if after is None:
                return deleted
