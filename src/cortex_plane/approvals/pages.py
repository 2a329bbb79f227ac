"""Dashboard pages: the approval inbox and one request. Laid out for phones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request, Response

from cortex_plane.approvals.decisions import Answer, Decided, Recorded
from cortex_plane.approvals.decisions import told as words_for
from cortex_plane.approvals.http import only_here, person_of
from cortex_plane.approvals.model import ApprovalId, ApprovalRequest, Verdict
from cortex_plane.approvals.rules import is_named
from cortex_plane.approvals.service import decide_approval, find_visible_approval
from cortex_plane.dashboard.flash import Note, go_to, told
from cortex_plane.dashboard.render import page
from cortex_plane.errors import Denied, InvalidInput, NotFound
from cortex_plane.http.auth import ThePlane, known
from cortex_plane.http.inputs import Id, IdPath
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

Anyone = Annotated[Caller, known()]
Decision = Annotated[Verdict, Form()]
Reason = Annotated[str, Form(max_length=2_000)]
DOOR = "dashboard"
SHOWN = 100
MOST_AT_ONCE = 100


@router.get("/approvals")
async def inbox(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    show: Annotated[str, Query(pattern="^(mine|open|all)?$")] = "",
) -> Response:
    """Shows the user's own requests first. Viewers can also list all open and all closed requests."""
    may_see_all = caller.may(Role.VIEWER)
    store = plane.store
    mine = await _mine(plane, caller)
    shown = show or ("mine" if mine or not may_see_all else "open")
    if shown == "mine" or not may_see_all:
        listed = mine
    else:
        listed = await store.approvals.list(tenant_id=caller.tenant_id, open_only=shown == "open", limit=SHOWN)
    return await page(
        request,
        caller,
        "approvals.html",
        requests=listed,
        stuck=await store.approvals.undecidable([one.id for one in listed if one.is_open]),
        mine={one.id for one in mine},
        shown=shown if may_see_all else "mine",
        may_see_all=may_see_all,
    )


@router.get("/approvals/requests/{approval_id}")
async def one(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> Response:
    store = plane.store
    found = await find_visible_approval(store, caller, approval_id, only_here=only_here(request))
    votes, is_mine = await store.approvals.votes(found.id), await _is_mine(plane, caller, found)
    told_to = await plane.approvals.notifications(found)
    stuck = (await store.approvals.undecidable([found.id])).get(found.id)
    return await page(request, caller, "approval.html", one=found, votes=votes, is_mine=is_mine, told_to=told_to, stuck=stuck)


@router.post("/approvals/requests/decide")
async def decide_many(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    decision: Decision,
    ids: Annotated[list[Id] | None, Form(max_length=MOST_AT_ONCE)] = None,
    reason: Reason = "",
) -> Response:
    if not ids:
        return go_to("/approvals", Note("refused", "Select at least one request."))

    async def work() -> str:
        return _said_of_many([await _tried(request, caller, plane, one, decision, reason) for one in dict.fromkeys(ids)])

    return await told("/approvals", work())


@router.post("/approvals/requests/{approval_id}/decide")
async def decide(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    approval_id: IdPath,
    decision: Decision,
    reason: Reason = "",
    edits: Annotated[str, Form(max_length=100_000)] = "",
) -> Response:
    async def work() -> str:
        return said_of(await _decide(request, caller, plane, approval_id, decision, reason, edits))

    return await told("/approvals", work())


async def _mine(plane: Plane, caller: Caller) -> list[ApprovalRequest]:
    """Requests for this user: of this tenant, and those of any tenant that name them or their groups."""
    if caller.user_id is None:
        return []
    store = plane.store
    groups = await store.people.groups_of(caller.user_id)
    found = await store.approvals.list(waiting_for=caller.user_id, limit=SHOWN)
    return [one for one in found if one.tenant_id == caller.tenant_id or is_named(one, caller.user_id, groups)]


async def _is_mine(plane: Plane, caller: Caller, request: ApprovalRequest) -> bool:
    """Reads one row: the newest request for this user that is not newer than this one."""
    if caller.user_id is None:
        return False
    behind = ApprovalId(str(UUID(int=UUID(request.id).int + 1)))
    found = await plane.store.approvals.list(waiting_for=caller.user_id, before=behind, limit=1)
    return [one.id for one in found] == [request.id]


async def _decide(
    request: Request, caller: Caller, plane: Plane, approval_id: str, decision: Verdict, reason: str, edits: str = ""
) -> Answer:
    person, store = person_of(request, caller), plane.store
    seen = await find_visible_approval(store, caller, approval_id, only_here=only_here(request))
    changed = _edits(edits, seen) if decision == "approved" else None
    return await decide_approval(store, seen.id, person, decision, reason=reason or None, edits=changed, door=DOOR)


async def _tried(
    request: Request, caller: Caller, plane: Plane, approval_id: str, decision: Verdict, reason: str
) -> Answer | NotFound:
    """A missing request does not affect the others."""
    try:
        return await _decide(request, caller, plane, approval_id, decision, reason)
    except NotFound as error:
        return error


def _edits(text: str, request: ApprovalRequest) -> Any:
    """Returns None if nothing was changed: the details are approved as shown."""
    if not text.strip() or not request.editable:
        return None
    try:
        edited = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"The changed details are not JSON: {error}. Nothing was decided.", field="edits") from None
    return None if edited == request.action_details else edited


def said_of(answer: Answer) -> str:
    if not isinstance(answer, Decided | Recorded):
        raise Denied(words_for(answer))
    return words_for(answer)


def _said_of_many(answers: Sequence[Answer | NotFound]) -> str:
    refused = [one for one in answers if not isinstance(one, Decided | Recorded)]
    said = f"Decided {len(answers) - len(refused)}."
    if refused:
        first = refused[0]
        raise Denied(f"{said} {len(refused)} could not be decided: {first if isinstance(first, NotFound) else words_for(first)}")
    return said
