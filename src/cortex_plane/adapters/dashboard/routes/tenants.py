"""Tenants: how much each does, what it costs, what it may cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import told
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import NamePath
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.controls import Scope
from cortex_plane.operations.add_tenant import add_tenant
from cortex_plane.operations.show_tenant import show_tenant

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
Operator = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]
Admin = Annotated[Caller, require(Role.ADMIN, everywhere=True)]
Reason = Annotated[str, Form(max_length=2_000)]
SHOWN = 100


@router.get("/tenants")
async def tenants(request: Request, caller: Viewer, plane: ThePlane) -> Response:
    store = await plane.store
    named = (await store.tenants.list())[:SHOWN]
    budgets = {budget.name: budget for budget in await plane.costs.budgets() if budget.scope is Scope.TENANT}
    return await page(
        request,
        caller,
        "tenants.html",
        overviews=[await show_tenant(store, tenant.name) for tenant in named],
        budgets=budgets,
    )


@router.post("/tenants")
async def add(
    caller: Admin, plane: ThePlane, name: Annotated[str, Form(min_length=1, max_length=200)], reason: Reason = ""
) -> Response:
    async def work() -> str:
        await add_tenant(await plane.store, plane._ids, name, actor=caller.name, reason=reason or None)
        return f'There is a tenant "{name}" now.'

    return await told("/tenants", work())


@router.post("/tenants/{name}/pause")
async def pause(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.pause(tenant=name, reason=reason or None, actor=caller.name)
        return f'Tenant "{name}" is paused: nothing more of it starts.'

    return await told("/tenants", work())


@router.post("/tenants/{name}/resume")
async def resume(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.resume(tenant=name, reason=reason or None, actor=caller.name)
        return f'Tenant "{name}" goes on.'

    return await told("/tenants", work())
