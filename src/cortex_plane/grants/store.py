"""Stores grants, execution requests and charges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cortex_plane.clock import instant
from cortex_plane.grants.model import (
    BillingAccount,
    BillingAccountId,
    ExecutionRequest,
    Grant,
    GrantId,
    GrantNotFound,
    KeyReused,
    NewGrant,
    NewRequest,
    Receipt,
    RequestId,
    UsageTotal,
    problem_with,
)
from cortex_plane.jobs.model import JobId, NewJob, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.store import cancel_many, submit_keyed
from cortex_plane.json import dumps, loads
from cortex_plane.schedules.rows import record, schedule_document, schedule_from
from cortex_plane.schedules.slot_store import due_now, leave_out_due
from cortex_plane.storage import rows
from cortex_plane.storage.rows import LOOKED_AT, NEWER_THAN_ALL, NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Database, Row


class GrantStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, grant: NewGrant, entry: AuditEntry) -> None:
        await self._database.transact(lambda: _add(grant, entry))

    async def get(self, grant_id: GrantId) -> Grant | None:
        found = await self._database.read("grants/get", id=grant_id)
        return grant_from(found[0]) if found else None

    async def find(self, prefix: str, tenant_id: TenantId | None = None) -> list[GrantId]:
        """At most five ids that begin with the prefix."""
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        found = await self._database.read("grants/find", low=low, high=high, tenant_id=tenant_id, looked_at=LOOKED_AT)
        return [GrantId(str(row["id"])) for row in found]

    async def revoke(self, grant_id: GrantId, entry: AuditEntry) -> tuple[int, int] | None:
        """Takes it back: its schedules pause, what waits under it is cancelled, what runs is asked to stop. Returns how many
        schedules and jobs that were; None when it was revoked already. All in one transaction."""
        return await self._database.transact(lambda: _revoke(grant_id, entry))

    async def list(self, tenant_id: TenantId | None = None, limit: int = 50) -> list[Grant]:
        """Newest first."""
        return [grant_from(row) for row in await self._database.read("grants/list", tenant_id=tenant_id, limit=limit)]

    async def page(self, tenant_id: TenantId, before: GrantId | None, limit: int) -> Sequence[Grant]:
        """Those of a tenant, newest first, before one of them."""
        found = await self._database.read("grants/page", tenant_id=tenant_id, before=before or NEWER_THAN_ALL, limit=limit)
        return [grant_from(row) for row in found]


def _add(grant: NewGrant, entry: AuditEntry) -> Transaction[None]:
    yield from add_grant(grant)
    yield from record(entry)


def add_grant(grant: NewGrant) -> Transaction[None]:
    yield from query(
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


def _revoke(grant_id: GrantId, entry: AuditEntry) -> Transaction[tuple[int, int] | None]:
    """The grant's row is changed first: whoever is just starting a run under it is waited for, and then found."""
    if not (yield from query("grants/revoke", id=grant_id, actor=entry.actor, reason=entry.reason)):
        return None
    why = f"grant {grant_id} was revoked" + (f": {entry.reason}" if entry.reason else "")
    schedules = yield from query("schedules/of_grant", grant_id=grant_id)
    for row in schedules:
        yield from _pause(str(row["id"]), entry.actor, why)
    yield from query("grants/cancel_slots", grant_id=grant_id, message=f"The {why}.")
    jobs = yield from _under(grant_id)
    cancelled = yield from cancel_many(jobs, "cancel", entry.actor, why)
    counted = {**entry.details, "schedules": len(schedules), "jobs": cancelled}
    yield from record(replace(entry, details=counted))
    return len(schedules), cancelled


def _under(grant_id: GrantId) -> Transaction[list[Row]]:
    """Its schedules' jobs, the runs under it, and whatever those have called, however deep."""
    found: list[Row] = []
    newer = yield from query("grants/live_jobs", grant_id=grant_id)
    while newer:
        found += newer
        newer = yield from query("grants/called", ids=dumps([str(row["id"]) for row in newer]))
    return found


def _pause(schedule_id: str, actor: str | None, why: str) -> Transaction[None]:
    [row] = yield from query("schedules/lock", id=schedule_id)
    [clock] = yield from query("slots/now")
    schedule, now = schedule_from(row), rows.moment(clock["now"])
    yield from leave_out_due(schedule, (yield from due_now(schedule, now)), "paused")
    paused = replace(
        schedule,
        enabled=False,
        paused_by=actor,
        paused_at=now,
        pause_reason=why,
        next_run_at=None,
        slot_job_id=None,
    )
    expected = None if schedule.next_run_at is None else instant(schedule.next_run_at)
    yield from query("schedules/write", schedule=schedule_document(paused), expected_next_run_at=expected)


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


# -- requests ----------------------------------------------------------------------------------
# Runs that were asked for under grants, what they have used, and the accounts that are charged.


class ExecutionRequestStore:
    """What was asked for under grants: written by the execution service alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, request: NewRequest, job: NewJob) -> ExecutionRequest:
        """Counts a use of the grant, remembers the request and submits its job; or returns what the key was used for before,
        and does nothing. Raises GrantRefused when the grant is not good for it any more."""
        return await self._database.transact(lambda: _add_request(request, job))

    async def by_key(self, tenant_id: TenantId, idempotency_key: str) -> ExecutionRequest | None:
        found = await self._database.read("requests/by_key", tenant_id=tenant_id, idempotency_key=idempotency_key)
        return _request(found[0]) if found else None

    async def by_run(self, run_id: JobId) -> ExecutionRequest | None:
        found = await self._database.read("requests/by_run", run_id=run_id)
        return _request(found[0]) if found else None

    async def get(self, request_id: RequestId) -> ExecutionRequest | None:
        found = await self._database.read("requests/get", id=request_id)
        return _request(found[0]) if found else None

    async def receipts(self, run_id: JobId) -> list[Receipt]:
        """What the run has used, its retries included."""
        return [_receipt(row) for row in await self._database.read("requests/receipts", run_id=run_id)]


class BillingStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure(self, account_id: str, tenant_id: TenantId, name: str, virtual_key_id: str) -> BillingAccount:
        """The tenant's account of that name, made if there is none."""
        await self._database.write("billing/ensure", id=account_id, tenant_id=tenant_id, name=name, virtual_key_id=virtual_key_id)
        account = await self.find(tenant_id, name)
        assert account is not None
        return account

    async def find(self, tenant_id: TenantId, name: str) -> BillingAccount | None:
        found = await self._database.read("billing/find", tenant_id=tenant_id, name=name)
        return _account(found[0]) if found else None

    async def totals(self, tenant_id: TenantId | None = None) -> list[UsageTotal]:
        return [
            UsageTotal(BillingAccountId(str(row["billing_account_id"])), row["unit"], row["quantity"], row["runs"])
            for row in await self._database.read("billing/totals", tenant_id=tenant_id)
        ]

    async def list(self, tenant_id: TenantId | None = None) -> list[BillingAccount]:
        """By name."""
        return [_account(row) for row in await self._database.read("billing/list", tenant_id=tenant_id)]


def _add_request(request: NewRequest, job: NewJob) -> Transaction[ExecutionRequest]:
    """The grant is locked before anything is read, so that a revocation, and the same request from somebody else, come wholly
    before this or wholly after."""
    key = {"tenant_id": request.tenant_id, "idempotency_key": request.idempotency_key}
    if not (yield from query("grants/lock", id=request.grant_id)):
        raise GrantNotFound(request.grant_id)
    known = yield from query("requests/by_key", **key)
    if known:
        return _request(known[0])
    if not (yield from query("grants/use", id=request.grant_id)):
        yield from _refuse(request)
    added = yield from query(
        "requests/add",
        id=request.id,
        request_hash=request.request_hash,
        graph_id=request.graph_id,
        grant_id=request.grant_id,
        run_id=request.run_id,
        trace_id=request.trace_id,
        service_name=request.service_name,
        **key,
    )
    if not added:  # With another grant, at this very moment.
        raise KeyReused(request.idempotency_key)
    yield from submit_keyed([job])
    [row] = yield from query("requests/by_key", **key)
    return _request(row)


def _refuse(request: NewRequest) -> Transaction[None]:
    [row] = yield from query("grants/get", id=request.grant_id)
    [clock] = yield from query("slots/now")
    problem = problem_with(grant_from(row), rows.moment(clock["now"]), request.graph_id)
    assert problem is not None
    raise problem


def _request(row: Row) -> ExecutionRequest:
    outcome = row["outcome"]
    return ExecutionRequest(
        id=RequestId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        idempotency_key=row["idempotency_key"],
        request_hash=row["request_hash"],
        graph_id=row["graph_id"],
        grant_id=GrantId(str(row["grant_id"])),
        billing_account_id=BillingAccountId(str(row["billing_account_id"])),
        virtual_key_id=row["virtual_key_id"],
        run_id=JobId(str(row["run_id"])),
        trace_id=row["trace_id"],
        service_name=row["service_name"],
        outcome=None if outcome is None else JobStatus(outcome),
        outcome_message=row["outcome_message"],
        created_at=rows.moment(row["created_at"]),
        finished_at=rows.moment_or_none(row["finished_at"]),
    )


def _receipt(row: Row) -> Receipt:
    return Receipt(
        run_id=JobId(str(row["run_id"])),
        attempt=row["attempt"],
        unit=row["unit"],
        quantity=row["quantity"],
        billing_account_id=BillingAccountId(str(row["billing_account_id"])),
        grant_id=GrantId(str(row["grant_id"])),
        virtual_key_id=row["virtual_key_id"],
        created_at=rows.moment(row["created_at"]),
        updated_at=rows.moment(row["updated_at"]),
    )


def _account(row: Row) -> BillingAccount:
    return BillingAccount(
        id=BillingAccountId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        tenant=row["tenant"],
        name=row["name"],
        default_virtual_key_id=row["default_virtual_key_id"],
        created_at=rows.moment(row["created_at"]),
    )
