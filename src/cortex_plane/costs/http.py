"""Who is charged for runs under grants, and what those have used."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from cortex_plane.grants.model import BillingAccount, BillingAccountNotFound, Receipt, UsageTotal
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import EXAMPLE_ID, ID_PATTERN, Input, Name, NamePath
from cortex_plane.http.lookups import run_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.people.roles import Caller, Role

router = APIRouter(prefix=f"{PREFIX}/billing", tags=["billing"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Admin = Annotated[Caller, require(Role.ADMIN)]
RunId = Annotated[str, Query(pattern=ID_PATTERN, description="The run's whole id.", examples=[EXAMPLE_ID])]


class NewAccount(Input):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"name": "research"}]})

    name: Name
    virtual_key: Name | None = Field(default=None, description="The key that runs are charged to. Otherwise one is made.")


@router.get("/accounts")
async def list_accounts(caller: Viewer, plane: ThePlane) -> list[BillingAccount]:
    """By name."""
    return await plane.billing.list(tenant=caller.tenant)


@router.post("/accounts", status_code=201, response_model=BillingAccount)
async def add_billing_account(
    request: Request, caller: Admin, plane: ThePlane, body: NewAccount, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds an account to your tenant. One that is there already stays as it is."""

    async def work(_ids: NewId) -> BillingAccount:
        return await plane.billing.add(body.name, virtual_key=body.virtual_key, tenant=caller.tenant)

    return await created(request, caller, idempotency_key, BillingAccount, work)


@router.get("/accounts/{name}")
async def get_account(caller: Viewer, plane: ThePlane, name: NamePath) -> BillingAccount:
    """One account."""
    account = await plane.store.billing.find(caller.tenant_id, name)
    if account is None:
        raise BillingAccountNotFound(name)
    return account


@router.get("/totals")
async def usage_totals(caller: Viewer, plane: ThePlane) -> list[UsageTotal]:
    """What the runs of each account have used, by unit."""
    return await plane.billing.totals(tenant=caller.tenant)


@router.get("/receipts")
async def receipts_of_run(caller: Viewer, plane: ThePlane, run_id: RunId) -> list[Receipt]:
    """What each attempt of a run has used."""
    run = await run_in(plane, caller, run_id)
    return await plane.billing.receipts(run.run_id)
