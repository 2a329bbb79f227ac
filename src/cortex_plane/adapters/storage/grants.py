"""Grants. Revoking one stops, in one transaction, everything that goes on under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.cancelling import cancel_many
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.jobs import NEWER_THAN_ALL, NO_DIGITS
from cortex_plane.adapters.storage.schedule_rows import record, schedule_document, schedule_from
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.grants import BillingAccountId, Grant, GrantId, NewGrant
from cortex_plane.core.instants import instant
from cortex_plane.core.jobs import TenantId
from cortex_plane.ports.json_text import dumps, loads


class SqlGrants:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, grant: NewGrant, entry: AuditEntry) -> None:
        await self._database.transact(lambda: _add(grant, entry))

    async def get(self, grant_id: GrantId) -> Grant | None:
        found = await self._database.read("grants/get", id=grant_id)
        return grant_from(found[0]) if found else None

    async def find(self, prefix: str) -> list[GrantId]:
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        return [GrantId(str(row["id"])) for row in await self._database.read("grants/find", low=low, high=high)]

    async def revoke(self, grant_id: GrantId, entry: AuditEntry) -> tuple[int, int] | None:
        return await self._database.transact(lambda: _revoke(grant_id, entry))

    async def list(self, tenant_id: TenantId | None = None, limit: int = 50) -> list[Grant]:
        return [grant_from(row) for row in await self._database.read("grants/list", tenant_id=tenant_id, limit=limit)]

    async def page(self, tenant_id: TenantId, before: GrantId | None, limit: int) -> Sequence[Grant]:
        found = await self._database.read("grants/page", tenant_id=tenant_id, before=before or NEWER_THAN_ALL, limit=limit)
        return [grant_from(row) for row in found]


def _add(grant: NewGrant, entry: AuditEntry) -> Script[None]:
    yield from add_grant(grant)
    yield from record(entry)


def add_grant(grant: NewGrant) -> Script[None]:
    yield from ask(
        "grants/add",
        id=grant.id,
        tenant_id=grant.tenant_id,
        user_account_id=grant.user_account_id,
        billing_account_id=grant.billing_account_id,
        scopes=dumps(list(grant.scopes)),
        expires_at=grant.expires_at,
        max_uses=grant.max_uses,
        created_by=grant.created_by,
    )


def _revoke(grant_id: GrantId, entry: AuditEntry) -> Script[tuple[int, int] | None]:
    """The grant's row is changed first: whoever is just starting a run under it is waited for, and then found."""
    if not (yield from ask("grants/revoke", id=grant_id, actor=entry.actor, reason=entry.reason)):
        return None
    why = f"grant {grant_id} was revoked" + (f": {entry.reason}" if entry.reason else "")
    schedules = yield from ask("schedules/of_grant", grant_id=grant_id)
    for row in schedules:
        yield from _pause(str(row["id"]), entry.actor, why)
    yield from ask("grants/cancel_slots", grant_id=grant_id, message=f"The {why}.")
    jobs = yield from _under(grant_id)
    cancelled = yield from cancel_many(jobs, "cancel", entry.actor, why)
    counted = {**entry.details, "schedules": len(schedules), "jobs": cancelled}
    yield from record(replace(entry, details=counted))
    return len(schedules), cancelled


def _under(grant_id: GrantId) -> Script[list[Row]]:
    """Its schedules' jobs, the runs under it, and whatever those have called, however deep."""
    found: list[Row] = []
    newer = yield from ask("grants/live_jobs", grant_id=grant_id)
    while newer:
        found += newer
        newer = yield from ask("grants/called", ids=dumps([str(row["id"]) for row in newer]))
    return found


def _pause(schedule_id: str, actor: str | None, why: str) -> Script[None]:
    [row] = yield from ask("schedules/lock", id=schedule_id)
    [clock] = yield from ask("slots/now")
    schedule = schedule_from(row)
    paused = replace(
        schedule,
        enabled=False,
        paused_by=actor,
        paused_at=rows.moment(clock["now"]),
        pause_reason=why,
        next_run_at=None,
        slot_job_id=None,
    )
    expected = None if schedule.next_run_at is None else instant(schedule.next_run_at)
    yield from ask("schedules/write", schedule=schedule_document(paused), expected_next_run_at=expected)


def grant_from(row: Row) -> Grant:
    return Grant(
        id=GrantId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        tenant=row["tenant"],
        user_account_id=rows.text_or_none(row["user_account_id"]),
        billing_account_id=BillingAccountId(str(row["billing_account_id"])),
        billing_account=row["billing_account"],
        scopes=tuple(loads(row["scopes"])),
        expires_at=rows.moment_or_none(row["expires_at"]),
        max_uses=row["max_uses"],
        uses=row["uses"],
        revoked_at=rows.moment_or_none(row["revoked_at"]),
        revoked_by=row["revoked_by"],
        revoke_reason=row["revoke_reason"],
        created_by=row["created_by"],
        created_at=rows.moment(row["created_at"]),
    )
