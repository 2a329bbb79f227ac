"""Who did what, and whether the record is untouched."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from cortex_plane.audit.model import AuditRecord
from cortex_plane.audit.service import AuditReport
from cortex_plane.cursors import cursor_for
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.inputs import Cursor, Input, Limit, MomentQuery, Name, NameQuery, Page, number_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.people.roles import Caller, Role

router = APIRouter(prefix=f"{PREFIX}/audit", tags=["audit"])

Operator = Annotated[Caller, require(Role.OPERATOR)]
AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]


class KnownSeal(Input):
    seal: Name | None = Field(
        default=None, description="A seal that you kept elsewhere: it must still be there.", examples=[f"3:{'0' * 64}"]
    )
    seals: list[Name] = Field(default=[], max_length=1_000, description="Several of them, such as the last lines of an export.")


@router.get("")
async def list_audit(
    caller: Operator,
    plane: ThePlane,
    actor: NameQuery = None,
    action: NameQuery = None,
    object_id: NameQuery = None,
    since: MomentQuery = None,
    until: MomentQuery = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AuditRecord]:
    """What was recorded of your tenant, newest first."""
    page = await plane.audit.page(
        actor=actor,
        action=action,
        object_id=object_id,
        tenant=caller.tenant,
        since=since,
        until=until,
        before=number_in("audit", cursor),
        limit=limit,
    )
    return Page(items=page.records, next=cursor_for("audit", page.next_before) if page.next_before else None)


@router.get("/all")
async def list_all_audit(
    _caller: AdminOfAll,
    plane: ThePlane,
    actor: NameQuery = None,
    action: NameQuery = None,
    object_id: NameQuery = None,
    since: MomentQuery = None,
    until: MomentQuery = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AuditRecord]:
    """What was recorded of all tenants, and of the installation itself, newest first."""
    page = await plane.audit.page(
        actor=actor,
        action=action,
        object_id=object_id,
        since=since,
        until=until,
        before=number_in("audit", cursor),
        limit=limit,
    )
    return Page(items=page.records, next=cursor_for("audit", page.next_before) if page.next_before else None)


@router.post("/verify")
async def verify_audit(
    _caller: AdminOfAll,
    plane: ThePlane,
    body: KnownSeal = KnownSeal(),  # noqa: B008 - it is frozen by nobody changing it
) -> AuditReport:
    """Checks every sealed entry: that nobody changed what was recorded."""
    return await plane.audit.verify(known=[*([body.seal] if body.seal else []), *body.seals])
