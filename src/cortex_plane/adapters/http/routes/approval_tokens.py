"""Deciding by a token: whoever has one is the person whom it was sent to. In the path, or in the body, which nobody logs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.adapters.http.access import ThePlane, anybody
from cortex_plane.adapters.http.decisions import RESPONSES, Approve, DecisionMade, Deny, answer_to, refuse_guessing
from cortex_plane.core.approvals import Verdict
from cortex_plane.operations.decide_approval import decide_by_token
from cortex_plane.plane import Plane

router = APIRouter(prefix="/api/approvals", tags=["approvals by token"], dependencies=[anybody])

DOOR = "token"


class ApproveByToken(Approve):
    token: str = Field(description="As the message has it.", examples=["cortex_apr_1_…"])


class DenyByToken(Deny):
    token: str = Field(description="As the message has it.", examples=["cortex_apr_1_…"])


@router.post("/approve", response_model=DecisionMade, responses=RESPONSES)
async def approve_by_token(request: Request, plane: ThePlane, body: ApproveByToken) -> Response:
    """Approves, by a token in the body."""
    return await _decide(request, plane, body.token, "approved", body.reason, body.details)


@router.post("/deny", response_model=DecisionMade, responses=RESPONSES)
async def deny_by_token(request: Request, plane: ThePlane, body: DenyByToken) -> Response:
    """Denies, by a token in the body."""
    return await _decide(request, plane, body.token, "denied", body.reason)


@router.post("/{token}/approve", response_model=DecisionMade, responses=RESPONSES)
async def approve_at_token(
    request: Request,
    plane: ThePlane,
    token: str,
    body: Approve = Approve(),  # noqa: B008 - it is frozen by nobody changing it
) -> Response:
    """Approves, by a token in the path."""
    return await _decide(request, plane, token, "approved", body.reason, body.details)


@router.post("/{token}/deny", response_model=DecisionMade, responses=RESPONSES)
async def deny_at_token(
    request: Request,
    plane: ThePlane,
    token: str,
    body: Deny = Deny(),  # noqa: B008 - it is frozen by nobody changing it
) -> Response:
    """Denies, by a token in the path."""
    return await _decide(request, plane, token, "denied", body.reason)


async def _decide(
    request: Request, plane: Plane, token: str, decision: Verdict, reason: str | None, edits: Any = None
) -> Response:
    store = await plane.store
    answer = await decide_by_token(store, token, decision, reason=reason, edits=edits, door=DOOR)
    await refuse_guessing(store, request, answer)
    return answer_to(request, answer)
