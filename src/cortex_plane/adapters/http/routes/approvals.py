"""Approvals for those who are signed in: what waits for them, what there is, and deciding it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from cortex_plane.adapters.http.access import ThePlane, known, require
from cortex_plane.adapters.http.deciders import only_here, person_of
from cortex_plane.adapters.http.decisions import RESPONSES, Approve, DecisionMade, Deny, answer_to, problem_with
from cortex_plane.adapters.http.errors import problem_of
from cortex_plane.adapters.http.inputs import Id, IdPath, Input, Text
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, id_in
from cortex_plane.adapters.http.routes.found import job_in
from cortex_plane.adapters.http.routes.job_changes import Outcome, Refusal
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.approvals import ApprovalId, ApprovalRequest, Verdict, Vote
from cortex_plane.core.decisions import Answer, Decided, Recorded
from cortex_plane.core.errors import CortexError, Unavailable
from cortex_plane.core.jobs import JobId
from cortex_plane.core.shown_approvals import ShownApproval, ShownNotification, shown
from cortex_plane.operations.decide_approval import decide_approval
from cortex_plane.operations.list_approvals import list_approvals
from cortex_plane.operations.remind_approval import remind_approval
from cortex_plane.operations.see_approval import see_approval
from cortex_plane.plane import Plane

router = APIRouter(prefix="/approvals", tags=["approvals"])
bulk = APIRouter(prefix="/bulk/approvals", tags=["approvals"])
mine = APIRouter(prefix="/inbox", tags=["approvals"])

DOOR = "api"

Anyone = Annotated[Caller, known()]
Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
OfJob = Annotated[str | None, Query(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="Only of this job.")]


class Many(Input):
    ids: list[Id] = Field(min_length=1, max_length=1_000)
    reason: Text | None = Field(default=None, description="The agents can read it.")


@router.get("")
async def list_all(
    caller: Viewer,
    plane: ThePlane,
    open_only: Annotated[bool, Query(description="Only what waits.")] = True,
    job: OfJob = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ShownApproval]:
    """What people are asked in your tenant, newest first."""
    found = await list_approvals(
        await plane.store,
        tenant_id=caller.tenant_id,
        job_id=None if job is None else JobId((await job_in(plane, caller, job)).id),
        open_only=open_only,
        before=_before(cursor),
        limit=limit,
    )
    return _page(found, limit, caller)


@mine.get("")
async def inbox(
    request: Request, caller: Anyone, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None
) -> Page[ShownApproval]:
    """What waits for you, newest first: what you may decide and have not voted on, in all tenants."""
    person = person_of(request, caller)
    found = await list_approvals(await plane.store, waiting_for=person, before=_before(cursor), limit=limit)
    return _page(found, limit, caller if only_here(request) else None)


@bulk.post("/approve")
async def approve_many(request: Request, caller: Anyone, plane: ThePlane, body: Many) -> Outcome:
    """Approves many. Those that cannot be are told, and the others are approved all the same."""
    return await _decide_many(request, caller, plane, body, "approved")


@bulk.post("/deny")
async def deny_many(request: Request, caller: Anyone, plane: ThePlane, body: Many) -> Outcome:
    """Denies many. Those that cannot be are told, and the others are denied all the same."""
    return await _decide_many(request, caller, plane, body, "denied")


@router.get("/{approval_id}")
async def get_approval(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> ShownApproval:
    """What is asked, and how it ended."""
    return shown(await _seen(request, caller, plane, approval_id))


@router.get("/{approval_id}/votes")
async def list_votes(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> list[Vote]:
    """Who has voted, in order."""
    seen = await _seen(request, caller, plane, approval_id)
    return list(await (await plane.store).approvals.votes(seen.id))


@router.get("/{approval_id}/approvers")
async def list_approvers(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> list[str]:
    """What others are shown of those who are asked by name; members of groups are not."""
    return list(await plane.approvals.asked(await _seen(request, caller, plane, approval_id)))


@router.get("/{approval_id}/notifications")
async def list_notifications(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> list[ShownNotification]:
    """Who was told, on which channel, and what has failed so far; addresses are not."""
    return list(await plane.approvals.notifications(await _seen(request, caller, plane, approval_id)))


@router.post("/{approval_id}/approve", response_model=DecisionMade, responses=RESPONSES)
async def approve(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    approval_id: IdPath,
    body: Approve = Approve(),  # noqa: B008 - it is frozen by nobody changing it
) -> Response:
    """Approves, as yourself."""
    return answer_to(request, await _decide(request, caller, plane, approval_id, "approved", body.reason, body.details))


@router.post("/{approval_id}/deny", response_model=DecisionMade, responses=RESPONSES)
async def deny(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    approval_id: IdPath,
    body: Deny = Deny(),  # noqa: B008 - it is frozen by nobody changing it
) -> Response:
    """Denies, as yourself."""
    return answer_to(request, await _decide(request, caller, plane, approval_id, "denied", body.reason))


@router.post("/{approval_id}/remind")
async def remind(caller: Submitter, plane: ThePlane, approval_id: IdPath) -> ShownApproval:
    """Asks everybody anew who has not voted."""
    store = await plane.store
    seen = await see_approval(store, caller, approval_id, only_here=True)
    await remind_approval(store, seen.id, actor=caller.name, source=DOOR)
    return shown(await plane.approvals.get(seen.id))


# -- what they share -----------------------------------------------------------------------------


async def _decide_many(request: Request, caller: Caller, plane: Plane, body: Many, decision: Verdict) -> Outcome:
    done: list[str] = []
    refused: list[Refusal] = []
    for approval_id in dict.fromkeys(body.ids):
        try:
            answer = await _decide(request, caller, plane, approval_id, decision, body.reason)
        except Unavailable:
            raise
        except CortexError as error:
            refused.append(Refusal(id=approval_id, problem=problem_of(error)))
            continue
        if isinstance(answer, Decided | Recorded):
            done.append(approval_id)
        else:
            refused.append(Refusal(id=approval_id, problem=problem_with(answer)))
    return Outcome(done=done, refused=refused)


async def _decide(
    request: Request,
    caller: Caller,
    plane: Plane,
    approval_id: str,
    decision: Verdict,
    reason: str | None,
    edits: Any = None,
) -> Answer:
    person = person_of(request, caller)
    seen = await _seen(request, caller, plane, approval_id)
    return await decide_approval(await plane.store, seen.id, person, decision, reason=reason, edits=edits, door=DOOR)


async def _seen(request: Request, caller: Caller, plane: Plane, approval_id: str) -> ApprovalRequest:
    return await see_approval(await plane.store, caller, approval_id, only_here=only_here(request))


def _before(cursor: str | None) -> ApprovalId | None:
    place = id_in("approvals", cursor)
    return None if place is None else ApprovalId(place)


def _page(found: list[ApprovalRequest], limit: int, only_of: Caller | None) -> Page[ShownApproval]:
    following = cursor_for("approvals", found[-1].id) if len(found) == limit else None
    visible = [one for one in found if only_of is None or one.tenant_id == only_of.tenant_id]
    return Page(items=[shown(one) for one in visible], next=following)
