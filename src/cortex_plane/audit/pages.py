"""Who did what, and whether the record is untouched."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from cortex_plane.cursors import cursor_for
from cortex_plane.dashboard.flash import Note, go_to
from cortex_plane.dashboard.render import page
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.inputs import Cursor, number_in
from cortex_plane.people.roles import Caller, Role

router = APIRouter(include_in_schema=False)

Word = Annotated[str, Query(max_length=200)]
SHOWN = 50


@router.get("/audit")
async def audit(
    request: Request,
    caller: Annotated[Caller, require(Role.OPERATOR)],
    plane: ThePlane,
    actor: Word = "",
    action: Word = "",
    object_id: Word = "",
    scope: Annotated[str, Query(pattern="^(tenant|all)?$")] = "",
    cursor: Cursor = None,
) -> Response:
    """Of one tenant; of all and of the installation itself for admins of all, who see that first."""
    may_see_all = caller.may(Role.ADMIN, everywhere=True)
    sees_all = may_see_all and scope != "tenant"
    found = await plane.audit.page(
        actor=actor.strip() or None,
        action=action.strip() or None,
        object_id=object_id.strip() or None,
        tenant=None if sees_all else caller.tenant,
        before=number_in("audit", cursor),
        limit=SHOWN,
    )
    return await page(
        request,
        caller,
        "audit.html",
        records=found.records,
        asked={"actor": actor, "action": action, "object_id": object_id, "scope": scope},
        sees_all=sees_all,
        may_see_all=may_see_all,
        next=cursor_for("audit", found.next_before) if found.next_before else None,
    )


@router.post("/audit/verify")
async def verify(_caller: Annotated[Caller, require(Role.ADMIN, everywhere=True)], plane: ThePlane) -> Response:
    report = await plane.audit.verify()
    if not report.sound:
        first = report.findings[0]
        what = f"{len(report.findings)} places do not fit, first {first.kind} at entry {first.seq}, seal {first.seal}"
        return go_to("/audit", Note("refused", f"The record was changed: {what}. To see all: cortex audit verify"))
    said = f"Nobody changed what was recorded: {report.sealed:,} sealed entries are as they were"
    return go_to("/audit", Note("done", f"{said}; {report.unsealed:,} are not sealed yet."))
