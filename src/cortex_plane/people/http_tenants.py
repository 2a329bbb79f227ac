"""Tenants, how much each does, what it costs, and what it may cost."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.costs.model import LARGEST_SUM_CENTS, Budget, CostTotal
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Name, NamePath, NameQuery, ReasonQuery, WithReason
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.model import TenantId
from cortex_plane.people.erasing import Erased
from cortex_plane.people.model import Tenant, TenantOverview
from cortex_plane.people.roles import Caller, Role
from cortex_plane.people.tenants import add_tenant, list_tenants, show_tenant
from cortex_plane.queues.model import OnExhausted, Scope

router = APIRouter(prefix=PREFIX)

Viewer = Annotated[Caller, require(Role.VIEWER)]
ViewerOfAll = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
OperatorOfAll = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]
AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]


class NewTenant(WithReason):
    name: Name = Field(examples=["acme"])


class AddedTenant(BaseModel):
    id: TenantId
    name: str


class TenantLimit(WithReason):
    max_running: int | None = Field(ge=1, le=1_000_000, description="null lifts the limit.", examples=[5])


class SetBudget(WithReason):
    cents: int = Field(ge=0, le=LARGEST_SUM_CENTS, examples=[50_000])
    on_exhausted: OnExhausted = "refuse"


class Stats(BaseModel):
    """`waiting` counts queue entries by state. Finished jobs are not counted: that would read all of them."""

    tenant: str
    running: int
    waiting: dict[str, int]
    spent_cents: int


# -- tenants -------------------------------------------------------------------------------------
@router.get("/tenants", tags=["tenants"])
async def get_tenants(_caller: ViewerOfAll, plane: ThePlane) -> list[Tenant]:
    """All tenants, by name."""
    return await list_tenants(plane.store)


@router.post("/tenants", tags=["tenants"], status_code=201, response_model=AddedTenant)
async def add(
    request: Request, caller: AdminOfAll, plane: ThePlane, body: NewTenant, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a tenant. It keeps its name, and is never deleted."""

    async def work(ids: NewId) -> AddedTenant:
        tenant_id = await add_tenant(plane.store, ids, body.name, actor=caller.name, reason=body.reason)
        return AddedTenant(id=tenant_id, name=body.name)

    return await created(request, caller, idempotency_key, AddedTenant, work)


@router.post("/tenants/{name}/erase", tags=["tenants"])
async def erase_a_tenant(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Erased:
    """Removes all that is stored for a tenant. Its open jobs are cancelled first. It cannot be undone."""
    return await plane.tenants.erase(name, actor=caller.name, reason=body.reason)


@router.get("/tenants/{name}", tags=["tenants"])
async def get_tenant(_caller: ViewerOfAll, plane: ThePlane, name: NamePath) -> TenantOverview:
    """What runs and waits, what it has cost, and what is set for it."""
    return await show_tenant(plane.store, name)


@router.post("/tenants/{name}/pause", tags=["tenants"])
async def pause_tenant(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> TenantOverview:
    """Nothing more of it is started; what runs goes on."""
    await plane.queues.pause(tenant=name, reason=body.reason, actor=caller.name)
    return await show_tenant(plane.store, name)


@router.post("/tenants/{name}/resume", tags=["tenants"])
async def resume_tenant(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> TenantOverview:
    """Lets a paused tenant go on."""
    await plane.queues.resume(tenant=name, reason=body.reason, actor=caller.name)
    return await show_tenant(plane.store, name)


@router.put("/tenants/{name}/limit", tags=["tenants"])
async def limit_tenant(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: TenantLimit) -> TenantOverview:
    """At most so many of its jobs run at a time, over all workers."""
    await plane.queues.limit(body.max_running, tenant=name, reason=body.reason, actor=caller.name)
    return await show_tenant(plane.store, name)


@router.get("/stats", tags=["stats"])
async def stats(caller: Viewer, plane: ThePlane) -> Stats:
    """How much your tenant does at this moment, and what it has spent."""
    store = plane.store
    running, waiting = await store.tenants.count_jobs(caller.tenant_id)
    spent = sum(total.cents for total in await store.costs.totals(tenant_id=caller.tenant_id))
    return Stats(tenant=caller.tenant, running=running, waiting=waiting, spent_cents=spent)


# -- money ---------------------------------------------------------------------------------------
@router.get("/costs", tags=["costs"])
async def get_costs(caller: Viewer, plane: ThePlane, agent: NameQuery = None) -> list[CostTotal]:
    """What the jobs of your tenant have cost so far, by agent."""
    return await plane.costs.totals(tenant=caller.tenant, agent=agent)


@router.get("/budgets", tags=["costs"])
async def get_budgets(caller: Viewer, plane: ThePlane) -> list[Budget]:
    """The budget of your tenant; all budgets, for those who see all tenants."""
    budgets = await plane.costs.budgets()
    if caller.may(Role.VIEWER, everywhere=True):
        return budgets
    return [budget for budget in budgets if (budget.scope, budget.name) == (Scope.TENANT, caller.tenant_id)]


@router.put("/budgets/{scope}/{name}", tags=["costs"])
async def set_budget(
    caller: AdminOfAll, plane: ThePlane, scope: Literal["agent", "tenant"], name: NamePath, body: SetBudget
) -> Budget:
    """What an agent or a tenant may spend. It counts from the first cent ever spent."""
    return await plane.costs.set_budget(
        body.cents, **{scope: name}, on_exhausted=body.on_exhausted, actor=caller.name, reason=body.reason
    )


@router.delete("/budgets/{scope}/{name}", tags=["costs"], status_code=204, response_model=None)
async def remove_budget(
    caller: AdminOfAll, plane: ThePlane, scope: Literal["agent", "tenant"], name: NamePath, reason: ReasonQuery = None
) -> None:
    """Removes a budget. What it had paused goes on."""
    await plane.costs.remove_budget(**{scope: name}, actor=caller.name, reason=reason)
