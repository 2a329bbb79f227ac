"""HTTP: /api/v1/approvals for authenticated users, and /api/approvals by token."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, assert_never

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, JsonValue

from cortex_plane.approvals.decisions import (
    AlreadyDecided,
    Answer,
    Decided,
    Expired,
    NotAllowed,
    Recorded,
    Unknown,
    Withdrawn,
    told,
)
from cortex_plane.approvals.model import ApprovalId, ApprovalOutcome, ApprovalRequest, Verdict, Vote
from cortex_plane.approvals.service import (
    decide_approval,
    decide_by_token,
    find_visible_approval,
    list_approvals,
    remind_approval,
)
from cortex_plane.approvals.views import ApprovalView, NotificationView, approval_view
from cortex_plane.cursors import cursor_for
from cortex_plane.errors import CortexError, Denied, Unavailable
from cortex_plane.http.auth import ThePlane, address_of, anybody, known, require
from cortex_plane.http.inputs import Cursor, Id, IdPath, Input, Limit, Page, Text, id_in
from cortex_plane.http.lookups import job_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.http.problems import (
    ALREADY_DECIDED,
    APPROVAL_EXPIRED,
    APPROVAL_WITHDRAWN,
    MAY_NOT_DECIDE,
    MEDIA_TYPE,
    NO_SUCH_APPROVAL,
    Kind,
    id_of,
    problem,
    problem_of,
)
from cortex_plane.jobs.http_changes import Outcome, Refusal
from cortex_plane.jobs.model import JobId
from cortex_plane.people.login import limit_tries
from cortex_plane.people.model import UserId
from cortex_plane.people.roles import Caller, Role, RoleMissing
from cortex_plane.plane import Plane
from cortex_plane.stores import Store

MOST_UNKNOWN_TOKENS = 60


class DecisionMade(BaseModel):
    """This decision closed the request, and its job has moved."""

    status: Literal["decided"] = "decided"
    id: ApprovalId
    job_id: JobId
    decision: Verdict
    outcome: ApprovalOutcome = Field(description="What the decision means for the job.")
    by: str
    at: datetime
    message: str


class VoteRecorded(BaseModel):
    """The vote is recorded; more approvals are needed."""

    status: Literal["recorded"] = "recorded"
    votes: int
    quorum: int
    message: str


class Deny(Input):
    reason: Text | None = Field(default=None, description="The agent can read it.", examples=["not on a Friday"])


class Approve(Deny):
    details: JsonValue = Field(default=None, description="The edited details, if the request is editable.")


RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"model": VoteRecorded, "description": "The vote is recorded; more approvals are needed."}
}


def status_of(answer: Answer) -> int:
    match answer:
        case Decided():
            return 200
        case Recorded():
            return 202
        case _:
            return _kind(answer).status


def answered(answer: Answer, request_id: str | None) -> JSONResponse:
    match answer:
        case Decided(id_, job_id, decision, outcome, by, at):
            message = told(answer)
            made = DecisionMade(id=id_, job_id=job_id, decision=decision, outcome=outcome, by=by, at=at, message=message)
            return JSONResponse(made.model_dump(mode="json"))
        case Recorded(votes, quorum):
            recorded = VoteRecorded(votes=votes, quorum=quorum, message=told(answer))
            return JSONResponse(recorded.model_dump(mode="json"), 202)
        case _:
            document = problem_with(answer, request_id)
            return JSONResponse(document, document["status"], media_type=MEDIA_TYPE)


def problem_with(answer: Answer, request_id: str | None = None) -> dict[str, Any]:
    """The problem document of a refused decision."""
    document = problem(_kind(answer), told(answer), request_id=request_id)
    match answer:
        case AlreadyDecided(decision, by, at):
            document |= {"decision": decision, "by": by, "at": None if at is None else at.isoformat()}
        case Expired(at):
            document |= {"at": at.isoformat()}
        case Withdrawn(at, superseded):
            document |= {"at": None if at is None else at.isoformat(), "superseded": superseded}
    return document


async def refuse_guessing(store: Store, request: Request, answer: object) -> None:
    """Rate limit on unknown tokens. Valid tokens are not counted, so users behind one address do not block each other."""
    if answer is None or isinstance(answer, Unknown):
        await limit_tries(store, f"approval:from:{address_of(request)}", MOST_UNKNOWN_TOKENS)


def answer_to(request: Request, answer: Answer) -> JSONResponse:
    return answered(answer, id_of(request))


def _kind(answer: Answer) -> Kind:
    match answer:
        case AlreadyDecided():
            return ALREADY_DECIDED
        case Expired():
            return APPROVAL_EXPIRED
        case Withdrawn():
            return APPROVAL_WITHDRAWN
        case NotAllowed():
            return MAY_NOT_DECIDE
        case Unknown():
            return NO_SUCH_APPROVAL
        case Decided() | Recorded():
            raise AssertionError("A recorded decision is not a problem.")
        case _:
            assert_never(answer)


# -- deciders ----------------------------------------------------------------------------------
# Who decides in the API and the dashboard: a signed-in user, or an API key of theirs with the role approver.


def only_here(request: Request) -> bool:
    """Whether the request uses an API key, which is limited to the tenant that it is used in."""
    return "authorization" in request.headers


def person_of(request: Request, caller: Caller) -> UserId:
    """Returns the user who decides. A key needs the role approver; whether the user may decide is checked with the decision."""
    if only_here(request) and Role.APPROVER not in caller.made_for:
        raise RoleMissing(Role.APPROVER, everywhere=False)
    if caller.user_id is None:
        raise Denied(
            "This API key has no owner, and only users can decide approvals. To create a key with an owner: "
            "cortex keys add NAME --user NAME --role approver"
        )
    return caller.user_id


# -- approvals ---------------------------------------------------------------------------------
# Approvals for authenticated users: inbox, lists, decisions.


router = APIRouter(prefix=f"{PREFIX}/approvals", tags=["approvals"])
bulk = APIRouter(prefix=f"{PREFIX}/bulk/approvals", tags=["approvals"])
mine = APIRouter(prefix=f"{PREFIX}/inbox", tags=["approvals"])

DOOR = "api"

Anyone = Annotated[Caller, known()]
Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
OfJob = Annotated[
    str | None, Query(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="Only requests of this job.")
]


class Many(Input):
    ids: list[Id] = Field(min_length=1, max_length=1_000)
    reason: Text | None = Field(default=None, description="The agents can read it.")


@router.get("")
async def list_all(
    caller: Viewer,
    plane: ThePlane,
    open_only: Annotated[bool, Query(description="Only open requests.")] = True,
    job: OfJob = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ApprovalView]:
    """Approval requests of your tenant, newest first."""
    found = await list_approvals(
        plane.store,
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
) -> Page[ApprovalView]:
    """Open requests that you may decide and have not voted on, in all tenants, newest first."""
    person = person_of(request, caller)
    found = await list_approvals(plane.store, waiting_for=person, before=_before(cursor), limit=limit)
    return _page(found, limit, caller if only_here(request) else None)


@bulk.post("/approve")
async def approve_many(request: Request, caller: Anyone, plane: ThePlane, body: Many) -> Outcome:
    """Approves several requests. Those that cannot be approved are returned in `refused`; the others are approved."""
    return await _decide_many(request, caller, plane, body, "approved")


@bulk.post("/deny")
async def deny_many(request: Request, caller: Anyone, plane: ThePlane, body: Many) -> Outcome:
    """Denies several requests. Those that cannot be denied are returned in `refused`; the others are denied."""
    return await _decide_many(request, caller, plane, body, "denied")


@router.get("/{approval_id}")
async def get_approval(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> ApprovalView:
    """One request, with its state and outcome."""
    return approval_view(await _seen(request, caller, plane, approval_id))


@router.get("/{approval_id}/votes")
async def list_votes(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> list[Vote]:
    """The votes, oldest first."""
    seen = await _seen(request, caller, plane, approval_id)
    return list(await plane.store.approvals.votes(seen.id))


@router.get("/{approval_id}/approvers")
async def list_approvers(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> list[str]:
    """Display names of the approvers named by user. Members of groups are not listed."""
    return list(await plane.approvals.asked(await _seen(request, caller, plane, approval_id)))


@router.get("/{approval_id}/notifications")
async def list_notifications(request: Request, caller: Anyone, plane: ThePlane, approval_id: IdPath) -> list[NotificationView]:
    """Who was notified, on which channel, and the last error. Addresses are not included."""
    return list(await plane.approvals.notifications(await _seen(request, caller, plane, approval_id)))


@router.post("/{approval_id}/approve", response_model=DecisionMade, responses=RESPONSES)
async def approve(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    approval_id: IdPath,
    body: Approve = Approve(),  # noqa: B008 - never modified
) -> Response:
    """Approves, as yourself."""
    return answer_to(request, await _decide(request, caller, plane, approval_id, "approved", body.reason, body.details))


@router.post("/{approval_id}/deny", response_model=DecisionMade, responses=RESPONSES)
async def deny(
    request: Request,
    caller: Anyone,
    plane: ThePlane,
    approval_id: IdPath,
    body: Deny = Deny(),  # noqa: B008 - never modified
) -> Response:
    """Denies, as yourself."""
    return answer_to(request, await _decide(request, caller, plane, approval_id, "denied", body.reason))


@router.post("/{approval_id}/remind")
async def remind(caller: Submitter, plane: ThePlane, approval_id: IdPath) -> ApprovalView:
    """Notifies all approvers who have not voted."""
    store = plane.store
    seen = await find_visible_approval(store, caller, approval_id, only_here=True)
    await remind_approval(store, seen.id, actor=caller.name, source=DOOR)
    return approval_view(await plane.approvals.get(seen.id))


# -- helpers ------------------------------------------------------------------------------------
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
    return await decide_approval(plane.store, seen.id, person, decision, reason=reason, edits=edits, door=DOOR)


async def _seen(request: Request, caller: Caller, plane: Plane, approval_id: str) -> ApprovalRequest:
    return await find_visible_approval(plane.store, caller, approval_id, only_here=only_here(request))


def _before(cursor: str | None) -> ApprovalId | None:
    place = id_in("approvals", cursor)
    return None if place is None else ApprovalId(place)


def _page(found: list[ApprovalRequest], limit: int, only_of: Caller | None) -> Page[ApprovalView]:
    following = cursor_for("approvals", found[-1].id) if len(found) == limit else None
    visible = [one for one in found if only_of is None or one.tenant_id == only_of.tenant_id]
    return Page(items=[approval_view(one) for one in visible], next=following)


# -- approval tokens ---------------------------------------------------------------------------
# Decisions by token, which authenticates its addressee. In the path, or in the body, which is not logged.


tokens_router = APIRouter(prefix="/api/approvals", tags=["approvals by token"], dependencies=[anybody])

TOKEN_DOOR = "token"


class ApproveByToken(Approve):
    token: str = Field(description="The token from the message.", examples=["cortex_apr_1_…"])


class DenyByToken(Deny):
    token: str = Field(description="The token from the message.", examples=["cortex_apr_1_…"])


@tokens_router.post("/approve", response_model=DecisionMade, responses=RESPONSES)
async def approve_by_token(request: Request, plane: ThePlane, body: ApproveByToken) -> Response:
    """Approves with a token in the body."""
    return await _decide_by_token(request, plane, body.token, "approved", body.reason, body.details)


@tokens_router.post("/deny", response_model=DecisionMade, responses=RESPONSES)
async def deny_by_token(request: Request, plane: ThePlane, body: DenyByToken) -> Response:
    """Denies with a token in the body."""
    return await _decide_by_token(request, plane, body.token, "denied", body.reason)


@tokens_router.post("/{token}/approve", response_model=DecisionMade, responses=RESPONSES)
async def approve_at_token(
    request: Request,
    plane: ThePlane,
    token: str,
    body: Approve = Approve(),  # noqa: B008 - never modified
) -> Response:
    """Approves with a token in the path."""
    return await _decide_by_token(request, plane, token, "approved", body.reason, body.details)


@tokens_router.post("/{token}/deny", response_model=DecisionMade, responses=RESPONSES)
async def deny_at_token(
    request: Request,
    plane: ThePlane,
    token: str,
    body: Deny = Deny(),  # noqa: B008 - never modified
) -> Response:
    """Denies with a token in the path."""
    return await _decide_by_token(request, plane, token, "denied", body.reason)


async def _decide_by_token(
    request: Request, plane: Plane, token: str, decision: Verdict, reason: str | None, edits: Any = None
) -> Response:
    store = plane.store
    answer = await decide_by_token(store, token, decision, reason=reason, edits=edits, door=TOKEN_DOOR)
    await refuse_guessing(store, request, answer)
    return answer_to(request, answer)
