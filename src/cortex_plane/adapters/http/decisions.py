"""Answers to decisions, as the API gives them: who decides has 200, who comes too late is told who was there before."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, assert_never

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, JsonValue

from cortex_plane.adapters.http.access import address_of
from cortex_plane.adapters.http.errors import (
    ALREADY_DECIDED,
    APPROVAL_EXPIRED,
    APPROVAL_WITHDRAWN,
    MAY_NOT_DECIDE,
    MEDIA_TYPE,
    NO_SUCH_APPROVAL,
    Kind,
    id_of,
    problem,
)
from cortex_plane.adapters.http.inputs import Input, Text
from cortex_plane.core.approvals import ApprovalId, ApprovalOutcome, Verdict
from cortex_plane.core.decision_texts import told
from cortex_plane.core.decisions import AlreadyDecided, Answer, Decided, Expired, NotAllowed, Recorded, Unknown, Withdrawn
from cortex_plane.core.jobs import JobId
from cortex_plane.operations.sign_in import limit_tries
from cortex_plane.ports.store import Store

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
    """The vote counts; more are needed."""

    status: Literal["recorded"] = "recorded"
    votes: int
    quorum: int
    message: str


class Deny(Input):
    reason: Text | None = Field(default=None, description="The agent can read it.", examples=["not on a Friday"])


class Approve(Deny):
    details: JsonValue = Field(default=None, description="The details as you change them, where the request allows that.")


RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"model": VoteRecorded, "description": "It counts; more approvals are needed."}
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
    """Of an answer that is neither a decision nor a vote."""
    document = problem(_kind(answer), told(answer), request_id=request_id)
    match answer:
        case AlreadyDecided(decision, by, at):
            document |= {"decision": decision, "by": by, "at": None if at is None else at.isoformat()}
        case Expired(at):
            document |= {"at": at.isoformat()}
        case Withdrawn(at):
            document |= {"at": None if at is None else at.isoformat()}
    return document


async def refuse_guessing(store: Store, request: Request, answer: object) -> None:
    """Only what is unknown is counted: nobody is kept from a decision by others behind the same address."""
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
            raise AssertionError("A decision that was taken is no problem.")
        case _:
            assert_never(answer)
