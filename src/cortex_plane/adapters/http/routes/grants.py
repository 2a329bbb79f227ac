"""Grants: under which work runs that nobody is signed in for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath, Input, Moment, Name, Text, WithReason
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, id_in
from cortex_plane.adapters.http.routes.found import grant_in
from cortex_plane.adapters.http.routes.schedule_inputs import GrantUses
from cortex_plane.core.access import AccountNotFound, Caller, Role
from cortex_plane.core.billing import DEFAULT_ACCOUNT
from cortex_plane.core.grants import LONGEST_SCOPE, MOST_SCOPES, Grant, GrantId
from cortex_plane.core.people import UserId
from cortex_plane.operations.add_grant import GrantWish, add_grant
from cortex_plane.operations.revoke_grant import revoke_grant
from cortex_plane.plane import Plane
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/grants", tags=["grants"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]
Scope = Annotated[Text, Field(min_length=1, max_length=LONGEST_SCOPE)]


class NewGrant(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"scopes": ["agent:run:report", "graph:execute:langgraph:*"], "max_uses": 100}]},
    )

    scopes: list[Scope] = Field(
        min_length=1,
        max_length=MOST_SCOPES,
        description="graph:execute:NAME, agent:run:NAME, with a * at the end for all that begin so.",
    )
    billing_account: Name = Field(default=DEFAULT_ACCOUNT, description="Who is charged.")
    expires_at: Moment | None = None
    max_uses: GrantUses | None = Field(default=None, description="How many runs it is good for; null for any number.")
    user: Name | None = Field(default=None, description="Who may start runs under it, besides operators.")


class RevokedGrant(BaseModel):
    grant: Grant
    schedules: int = Field(description="How many schedules were paused.")
    jobs: int = Field(description="How many jobs were cancelled, or asked to stop.")


@router.get("")
async def list_grants(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[Grant]:
    """Newest first; those that are good for nothing any more, too."""
    before = id_in("grant", cursor)
    store = await plane.store
    found = list(await store.grants.page(caller.tenant_id, None if before is None else GrantId(before), limit))
    return Page(items=found, next=cursor_for("grant", found[-1].id) if len(found) == limit else None)


@router.post("", status_code=201, response_model=Grant)
async def add_a_grant(
    request: Request, caller: Operator, plane: ThePlane, body: NewGrant, idempotency_key: IdempotencyKey = None
) -> Response:
    """Allows schedules and services to run something in your tenant. Nobody grants more than they hold: an operator holds
    everything of the tenant, others hold what was granted to them and cannot pass it on."""
    user_id = None if body.user is None else await _user_in(plane, caller, body.user)

    async def work(ids: NewId) -> Grant:
        opened = await plane._open_here()
        grant_id = GrantId(ids())
        known = await opened.store.grants.get(grant_id)
        wish = GrantWish(
            body.scopes,
            caller.tenant,
            body.billing_account,
            body.expires_at,
            body.max_uses,
            user_id,
            created_by=caller.name,
            id=grant_id,
        )
        return known or await add_grant(opened.store, opened.directory, plane.clock, ids, wish)

    return await created(request, caller, idempotency_key, Grant, work, location="/api/v1/grants/{id}")


@router.get("/{grant_id}")
async def get_grant(caller: Viewer, plane: ThePlane, grant_id: IdPath) -> Grant:
    """One grant."""
    return await grant_in(plane, caller, grant_id)


@router.post("/{grant_id}/revoke")
async def revoke_a_grant(caller: Operator, plane: ThePlane, grant_id: IdPath, body: WithReason) -> RevokedGrant:
    """Its schedules pause, what waits under it is cancelled, what runs is asked to stop: at once."""
    grant = await grant_in(plane, caller, grant_id)
    revoked = await revoke_grant(await plane.store, grant.id, actor=caller.name, reason=body.reason)
    return RevokedGrant(grant=revoked.grant, schedules=revoked.schedules, jobs=revoked.jobs)


async def _user_in(plane: Plane, caller: Caller, name: str) -> UserId:
    """Somebody without a role in the tenant is, for the tenant, not there."""
    account = await (await plane.store).accounts.find(name)
    if account is None or not any(given.tenant_id in (None, caller.tenant_id) for given in account.given):
        raise AccountNotFound(name)
    return account.id
