"""Adds and removes the rules that say how long finished jobs are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import AmbiguousRule, RuleExists, RuleNotFound
from cortex_plane.core.retention import RetentionRule, RuleId, check_keep, check_status
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def add_rule(
    store: Store,
    directory: Directory,
    new_id: NewId,
    keep: float | timedelta,
    *,
    tenant: str | None = None,
    agent: str | None = None,
    status: JobStatus | str | None = None,
    actor: str | None = None,
    reason: str | None = None,
) -> RetentionRule:
    """Jobs are deleted so long after their end. What is left out holds for all; the most specific rule wins."""
    rule = RetentionRule(
        id=RuleId(new_id()),
        keep_seconds=check_keep(keep),
        tenant_id=None if tenant is None else await directory.tenant(tenant),
        job_type=None if agent is None else (await directory.agent(agent)).job_type,
        status=check_status(status),
        tenant=tenant,
        created_by=actor,
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
    details = {"keep_seconds": rule.keep_seconds, "job_type": rule.job_type, "status": rule.status}
    return AuditEntry(action, "retention_rule", rule.id, actor, reason, tenant_id=rule.tenant_id, details=details)
