"""Transactions that close a request: decisions and expiry.

lock the job, then the request ──▶ check permission ──▶ insert the vote ──▶ count votes, in a later statement ──▶ move the job

A trigger on the job closes the request in the same transaction, from the note of the transition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cortex_plane.approvals import rows as approval_rows
from cortex_plane.approvals.decisions import (
    AlreadyDecided,
    Answer,
    Decided,
    Expired,
    NotAllowed,
    Recorded,
    Unknown,
    Withdrawn,
    edited,
)
from cortex_plane.approvals.model import ApprovalId, ApprovalOutcome, ApprovalRequest, Verdict
from cortex_plane.approvals.rules import Voter, denial_message, expiry_message, outcome_of_expiry, refusal, resumes_job
from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import RunId
from cortex_plane.json import dumps, loads
from cortex_plane.json_schema import check_document
from cortex_plane.people.model import UserGroupId, UserId
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.storage.database import Row

EXPIRY_ACTOR = "approvals"
"""Actor of expiries in history and audit log."""

Array = Callable[[Iterable[str]], Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision to apply. `door` is the interface it came from; `run_id` is for the run that it may open."""

    request_id: ApprovalId
    user_id: UserId
    decision: Verdict
    reason: str | None
    edits: Any
    door: str
    run_id: RunId
    token_hash: str | None = field(default=None, repr=False)


def decide(given: Decision, array: Array) -> Transaction[Answer]:
    found = yield from _get(given.request_id, array)
    if found is not None and found["outcome"] is None:  # A closed request stays closed, so it needs no lock.
        found = yield from _locked(given.request_id, array)
    if found is None or not (yield from _has_token(given)):
        return Unknown()
    request = approval_rows.approval_request(found)
    voter = yield from _voter(request, given.user_id)
    if voter is None:
        return Unknown()
    refused = refusal(request, voter)
    if refused is not None:
        return refused
    closed = _closed(request, found)
    if closed is None:
        return (yield from _vote(request, found["token_hash"], voter, given))
    return (yield from _repeated(request, voter, given)) or closed


def _repeated(request: ApprovalRequest, voter: Voter, given: Decision) -> Transaction[Answer | None]:
    """A repeated vote, sent again because the reply was lost, gets the original result. Not with another reason or other
    details: those were not recorded."""
    if request.decision != given.decision or request.used_at is None:
        return None
    for vote in (yield from query("approvals/vote_of", request_id=request.id, user_id=voter.user.id)):
        try:
            edits = _edited(request, given)
        except InvalidInput:
            return None
        recorded = given.reason is None or given.reason == vote["reason"]
        if recorded and vote["decision"] == given.decision and _json(vote["edited_details"]) == edits:
            by = request.decided_by_name or voter.user.label
            return Decided(request.id, request.job_id, given.decision, given.decision, by, request.used_at)
    return None


def _edited(request: ApprovalRequest, given: Decision) -> Any:
    if given.decision != "approved":
        return None
    return edited(request.action_details, given.edits, request.editable, check_document)


def _json(stored: Any) -> Any:
    return None if stored is None else loads(stored)


def expire(request_id: ApprovalId, run_id: RunId, array: Array) -> Transaction[bool]:
    found = yield from _locked(request_id, array)
    if found is None or found["outcome"] is not None or not found["expired"]:
        return False
    request = approval_rows.approval_request(found)
    outcome = outcome_of_expiry(request.on_expiry)
    message = expiry_message(outcome, request.ttl_seconds)
    note = {"approval_request_id": request.id, "decision": "expired", "outcome": outcome}
    moved = yield from _move(request, found["token_hash"], outcome, message, run_id, "expire", EXPIRY_ACTOR, note)
    if moved is None:
        return False
    details = {"job_id": request.job_id, "gate": request.gate_key, "outcome": outcome}
    yield from _audit("APPROVAL_EXPIRED", request, EXPIRY_ACTOR, None, None, details)
    return True


# -- steps ---------------------------------------------------------------------------------------
def _locked(request_id: ApprovalId, array: Array) -> Transaction[Row | None]:
    """Locks the job and the request until the end of the transaction. None if there is no such request."""
    if not (yield from query("approvals/lock_job", id=request_id)):
        return None
    yield from query("approvals/lock", id=request_id)
    return (yield from _get(request_id, array))


def _get(request_id: ApprovalId, array: Array) -> Transaction[Row | None]:
    found = yield from query("approvals/get", ids=array([request_id]))
    return found[0] if found else None


def _has_token(given: Decision) -> Transaction[bool]:
    """Checks again that the token is valid: it may have been replaced since it was looked up."""
    if given.token_hash is None:
        return True
    found = yield from query("approvals/by_token", token_hash=given.token_hash)
    return [(str(row["approval_request_id"]), str(row["user_account_id"])) for row in found] == [
        (given.request_id, given.user_id)
    ]


def _voter(request: ApprovalRequest, user_id: UserId) -> Transaction[Voter | None]:
    found = yield from query("approvals/voter", user_id=user_id, job_id=request.job_id)
    if not found:
        return None
    groups: frozenset[UserGroupId] = frozenset()
    if request.approvers.groups or request.escalate_to.groups:
        memberships = yield from query("people/groups_of", user_id=user_id)
        groups = frozenset(UserGroupId(str(row["group_id"])) for row in memberships)
    return approval_rows.voter(found[0], groups)


def _closed(request: ApprovalRequest, row: Row) -> Answer | None:
    match request.decision:
        case "approved" | "denied" as decision:
            return AlreadyDecided(decision, request.decided_by_name, request.used_at)
        case "expired":
            return Expired(request.expires_at)
    if request.outcome is not None:
        return Withdrawn(request.closed_at, superseded=request.outcome == "superseded")
    return Expired(request.expires_at) if row["expired"] else None


def _vote(request: ApprovalRequest, token_hash: str, voter: Voter, given: Decision) -> Transaction[Answer]:
    changed = _edited(request, given)
    before = yield from query("approvals/vote_of", request_id=request.id, user_id=voter.user.id)
    if before and before[0]["decision"] != given.decision:
        return NotAllowed("You have already voted, and a vote cannot be changed. To stop the job, cancel it.")
    if not before:
        yield from query(
            "approvals/vote",
            request_id=request.id,
            user_id=voter.user.id,
            decision=given.decision,
            reason=given.reason,
            edited_details=None if changed is None else dumps(changed),
            door=given.door,
        )
    [counted] = yield from query("approvals/count_votes", id=request.id)
    if given.decision == "approved" and counted["votes"] < request.quorum:
        return Recorded(counted["votes"], request.quorum)
    return (yield from _close(request, token_hash, voter, given, counted["votes"]))


def _close(request: ApprovalRequest, token_hash: str, voter: Voter, given: Decision, votes: int) -> Transaction[Answer]:
    """Closes the request: on the first denial, or on the approval that completes the quorum."""
    outcome: ApprovalOutcome = given.decision
    name, label = voter.user.name, voter.user.label
    note = {
        "approval_request_id": request.id,
        "decision": given.decision,
        "outcome": outcome,
        "decided_by": voter.user.id,
        "reason": given.reason,
    }
    cause = "approve" if given.decision == "approved" else "deny"
    message = denial_message(label, given.reason)
    at = yield from _move(request, token_hash, outcome, message, given.run_id, cause, name, note)
    if at is None:
        return Withdrawn(None)
    details = {"job_id": request.job_id, "gate": request.gate_key, "votes": votes, "quorum": request.quorum}
    yield from _audit(f"APPROVAL_{given.decision.upper()}", request, name, given.reason, given.door, details)
    return Decided(request.id, request.job_id, given.decision, outcome, label, rows.moment(at))


def _move(
    request: ApprovalRequest,
    token_hash: str,
    outcome: ApprovalOutcome,
    message: str,
    run_id: RunId,
    cause: str,
    actor: str,
    note: dict[str, Any],
) -> Transaction[Any | None]:
    """Moves the job, which closes the request. None if the job no longer waits for it."""
    values = {
        "job_id": request.job_id,
        "token_hash": token_hash,
        "cause": cause,
        "actor": actor,
        "note": dumps({name: value for name, value in note.items() if value is not None}),
    }
    if resumes_job(outcome, request.on_denial):
        moved = yield from query("approvals/resume_job", run_id=run_id, **values)
    else:
        kind = "ApprovalDenied" if outcome == "denied" else "ApprovalExpired"
        error = dumps({"type": kind, "message": message, "step": request.gate_key})
        moved = yield from query("approvals/fail_job", error=error, error_message=message, **values)
    return moved[0]["at"] if moved else None


def _audit(
    action: str, request: ApprovalRequest, actor: str, reason: str | None, source: str | None, details: dict[str, Any]
) -> Transaction[None]:
    entry = AuditEntry(action, "approval", request.id, actor, reason, source, request.tenant_id, details)
    yield from query("audit/record", entries=dumps([entry.to_json()]))
