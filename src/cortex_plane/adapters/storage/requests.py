"""Runs that were asked for under grants, what they have used, and the accounts that are charged."""

from __future__ import annotations

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.grants import grant_from
from cortex_plane.adapters.storage.keys import submit_keyed
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.billing import BillingAccount, UsageTotal
from cortex_plane.core.execution import ExecutionRequest, KeyReused, NewRequest, Receipt, RequestId
from cortex_plane.core.grants import BillingAccountId, GrantId, GrantNotFound, problem_with
from cortex_plane.core.jobs import JobId, NewJob, TenantId
from cortex_plane.core.states import JobStatus


class SqlRequests:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, request: NewRequest, job: NewJob) -> ExecutionRequest:
        return await self._database.transact(lambda: _add(request, job))

    async def by_key(self, tenant_id: TenantId, idempotency_key: str) -> ExecutionRequest | None:
        found = await self._database.read("requests/by_key", tenant_id=tenant_id, idempotency_key=idempotency_key)
        return _request(found[0]) if found else None

    async def by_run(self, run_id: JobId) -> ExecutionRequest | None:
        found = await self._database.read("requests/by_run", run_id=run_id)
        return _request(found[0]) if found else None

    async def receipts(self, run_id: JobId) -> list[Receipt]:
        return [_receipt(row) for row in await self._database.read("requests/receipts", run_id=run_id)]


class SqlBilling:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure(self, account_id: str, tenant_id: TenantId, name: str, virtual_key_id: str) -> BillingAccount:
        await self._database.write("billing/ensure", id=account_id, tenant_id=tenant_id, name=name, virtual_key_id=virtual_key_id)
        account = await self.find(tenant_id, name)
        assert account is not None
        return account

    async def find(self, tenant_id: TenantId, name: str) -> BillingAccount | None:
        found = await self._database.read("billing/find", tenant_id=tenant_id, name=name)
        return _account(found[0]) if found else None

    async def totals(self) -> list[UsageTotal]:
        return [
            UsageTotal(BillingAccountId(str(row["billing_account_id"])), row["unit"], row["quantity"], row["runs"])
            for row in await self._database.read("billing/totals")
        ]

    async def list(self, tenant_id: TenantId | None = None) -> list[BillingAccount]:
        return [_account(row) for row in await self._database.read("billing/list", tenant_id=tenant_id)]


def _add(request: NewRequest, job: NewJob) -> Script[ExecutionRequest]:
    """The grant is locked before anything is read, so that a revocation, and the same request from somebody else, come wholly
    before this or wholly after."""
    key = {"tenant_id": request.tenant_id, "idempotency_key": request.idempotency_key}
    if not (yield from ask("grants/lock", id=request.grant_id)):
        raise GrantNotFound(request.grant_id)
    known = yield from ask("requests/by_key", **key)
    if known:
        return _request(known[0])
    if not (yield from ask("grants/use", id=request.grant_id)):
        yield from _refuse(request)
    added = yield from ask(
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
    [row] = yield from ask("requests/by_key", **key)
    return _request(row)


def _refuse(request: NewRequest) -> Script[None]:
    [row] = yield from ask("grants/get", id=request.grant_id)
    [clock] = yield from ask("slots/now")
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
