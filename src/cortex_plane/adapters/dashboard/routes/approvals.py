"""The inbox, for an approver on a phone: what is asked, for how long it keeps, and two buttons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request, Response

from cortex_plane.adapters.dashboard.notes import Note, go_to, told
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, known, require
from cortex_plane.adapters.http.inputs import Id, IdPath
from cortex_plane.core.access import Caller, Role, RoleMissing
from cortex_plane.core.approvals import ApprovalId, ApprovalNotFound, ApprovalRequest
from cortex_plane.core.decision_texts import told as words_for
from cortex_plane.core.decisions import Answer, Decided, Recorded
from cortex_plane.core.errors import Denied, InvalidInput
from cortex_plane.core.people import UserId
from cortex_plane.operations.decide_approval import decide_approval, decide_approvals
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

Approver = Annotated[Caller, require(Role.APPROVER)]
Decision = Annotated[Literal["approved", "denied"], Form()]
Reason = Annotated[str, Form(max_length=2_000)]
DOOR = "dashboard"
SHOWN = 100
MOST_AT_ONCE = 100


@router.get("/approvals")
async def inbox(
    request: Request,
    caller: Annotated[Caller, known()],
    plane: ThePlane,
    show: Annotated[str, Query(pattern="^(mine|open|all)?$")] = "",
) -> Response:
    """One's own first; those who may look at jobs also see what waits for others, and what was decided."""
    may_see_all = caller.may(Role.VIEWER)
    if not may_see_all and not caller.may(Role.APPROVER):
        raise RoleMissing(Role.APPROVER, everywhere=False)
    store = await plane.store
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
        mine={one.id for one in mine},
        shown=shown if may_see_all else "mine",
        may_see_all=may_see_all,
    )


@router.get("/approvals/requests/{approval_id}")
async def one(request: Request, caller: Annotated[Caller, known()], plane: ThePlane, approval_id: IdPath) -> Response:
    found = await _seen_by(plane, caller, approval_id)
    store = await plane.store
    mine = {one.id for one in await _mine(plane, caller)}
    return await page(request, caller, "approval.html", one=found, votes=await store.approvals.votes(found.id), mine=mine)


@router.post("/approvals/requests/decide")
async def decide_many(
    caller: Approver,
    plane: ThePlane,
    decision: Decision,
    ids: Annotated[list[Id] | None, Form(max_length=MOST_AT_ONCE)] = None,
    reason: Reason = "",
) -> Response:
    if not ids:
        return go_to("/approvals", Note("refused", "Nothing was chosen. Tick those that you mean."))

    async def work() -> str:
        for one in ids:
            await _seen_by(plane, caller, one)
        answers = await decide_approvals(await plane.store, ids, _user(caller), decision, reason=reason or None, door=DOOR)
        return _said_of_many(list(answers.values()))

    return await told("/approvals", work())


@router.post("/approvals/requests/{approval_id}/decide")
async def decide(
    caller: Approver,
    plane: ThePlane,
    approval_id: IdPath,
    decision: Decision,
    reason: Reason = "",
    edits: Annotated[str, Form(max_length=100_000)] = "",
) -> Response:
    async def work() -> str:
        request = await _seen_by(plane, caller, approval_id)
        changed = _edits(edits, request) if decision == "approved" else None
        answer = await decide_approval(
            await plane.store, request.id, _user(caller), decision, reason=reason or None, edits=changed, door=DOOR
        )
        return said_of(answer)

    return await told("/approvals", work())


async def _mine(plane: Plane, caller: Caller) -> list[ApprovalRequest]:
    if caller.user_id is None or not caller.may(Role.APPROVER):
        return []
    found = await (await plane.store).approvals.list(waiting_for=_user(caller), limit=SHOWN)
    return [one for one in found if one.tenant_id == caller.tenant_id]


async def _seen_by(plane: Plane, caller: Caller, approval_id: str) -> ApprovalRequest:
    """What belongs to others is, for the caller, not there; approvers see what waits for them."""
    found = await (await plane.store).approvals.get(ApprovalId(approval_id))
    if found is None or found.tenant_id != caller.tenant_id:
        raise ApprovalNotFound(approval_id)
    if not caller.may(Role.VIEWER) and not caller.may(Role.APPROVER):
        raise RoleMissing(Role.APPROVER, everywhere=False)
    return found


def _user(caller: Caller) -> UserId:
    if caller.user_id is None:
        raise Denied("A key decides nothing by itself: sign in as the person who decides.")
    return UserId(caller.user_id)


def _edits(text: str, request: ApprovalRequest) -> Any:
    """None where nothing was changed: then what was shown is what is approved."""
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


def _said_of_many(answers: Sequence[Answer]) -> str:
    refused = [words_for(answer) for answer in answers if not isinstance(answer, Decided | Recorded)]
    said = f"Decided {len(answers) - len(refused)}."
    if refused:
        raise Denied(f"{said} {len(refused)} could not be: {refused[0]}")
    return said
