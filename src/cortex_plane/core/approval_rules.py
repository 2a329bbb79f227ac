"""What a handler may ask of people, within which limits, and who of them may decide: checked here, stored elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from cortex_plane.core.approval_config import USUAL_CONFIG, ApprovalConfig, checked_seconds
from cortex_plane.core.approval_edits import checked_editable
from cortex_plane.core.approvals import (
    NOBODY,
    ApprovalId,
    ApprovalOutcome,
    ApprovalRequest,
    Approvers,
    NewApproval,
    OnDenial,
    OnExpiry,
)
from cortex_plane.core.decisions import NotAllowed
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import AgentId, JobId, RunId, TenantId
from cortex_plane.core.normal_json import normal
from cortex_plane.core.people import User, UserGroupId, UserId

SUMMARY_LIMIT = 2_000
REASON_LIMIT = 2_000
KEY_LIMIT = 500
LARGEST_QUORUM = 100


def new_approval(
    *,
    request_id: ApprovalId,
    job_id: JobId,
    run_id: RunId,
    agent_id: AgentId,
    tenant_id: TenantId,
    gate_key: str,
    token_hash: str,
    summary: Any,
    details: Any = None,
    config: ApprovalConfig = USUAL_CONFIG,
    approvers: Approvers = NOBODY,
    quorum: Any = 1,
    no_self_approval: bool = False,
    editable: Any = False,
    ttl_seconds: float | None = None,
    remind_after_seconds: float | None = None,
    escalate_after_seconds: float | None = None,
    escalate_to: Approvers = NOBODY,
    on_expiry: Any = "fail",
    default: Any = None,
    on_denial: Any = "fail",
) -> NewApproval:
    """A request within all limits. Raises InvalidInput naming the field."""
    shown = normal(details, "details")
    ttl = config.ttl_seconds(ttl_seconds)
    if bool(escalate_to) != (escalate_after_seconds is not None):
        raise InvalidInput("An escalation needs both: after how long, and to whom.", field="escalate")
    return NewApproval(
        id=request_id,
        job_id=job_id,
        run_id=run_id,
        agent_id=agent_id,
        tenant_id=tenant_id,
        gate_key=_text(gate_key, "name", KEY_LIMIT),
        action_summary=_text(summary, "summary", SUMMARY_LIMIT),
        ttl_seconds=ttl,
        token_hash=token_hash,
        action_details=shown,
        approvers=approvers,
        quorum=_quorum(quorum, approvers),
        no_self_approval=bool(no_self_approval),
        editable=checked_editable(editable, shown, quorum),
        remind_after_seconds=None if remind_after_seconds is None else checked_seconds(remind_after_seconds, "remind_after"),
        escalate_after_seconds=None
        if escalate_after_seconds is None
        else checked_seconds(escalate_after_seconds, "escalate_after"),
        escalate_to=escalate_to,
        on_expiry=_one_of(on_expiry, OnExpiry, "on_expiry"),
        default=normal(default, "default"),
        on_denial=_one_of(on_denial, OnDenial, "on_denial"),
    )


def checked_reason(reason: Any) -> str | None:
    if reason is None or (isinstance(reason, str) and not reason.strip()):
        return None
    return _text(reason, "reason", REASON_LIMIT)


# -- who may decide ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Voter:
    """Somebody who wants to decide, as they stand towards one request."""

    user: User
    groups: frozenset[UserGroupId] = frozenset()
    may_approve: bool = False
    """By their role, in the tenant of the request."""
    is_submitter: bool = False
    """The job is theirs: they submitted it, or it came out of their session."""


def refusal(request: ApprovalRequest, voter: Voter) -> NotAllowed | None:
    """Why this person may not decide about this request; None if they may."""
    if voter.user.disabled_at is not None:
        return NotAllowed("Your account is disabled.")
    if not _is_asked(request, voter):
        return NotAllowed("You are not among those who may decide this.")
    if request.no_self_approval and voter.is_submitter:
        return NotAllowed("The job is your own; somebody else must decide this.")
    if not request.is_as_shown:
        return NotAllowed("What is stored is not what was asked for, so it cannot be approved. Cancel the job, and look into it.")
    return None


def _is_asked(request: ApprovalRequest, voter: Voter) -> bool:
    return (not request.designated and voter.may_approve) or is_named(request, voter.user.id, voter.groups)


def is_named(request: ApprovalRequest, user_id: UserId, groups: frozenset[UserGroupId]) -> bool:
    """Whether the request is put to this person, by name or by a group."""
    asked = (request.approvers, request.escalate_to) if request.escalated_at is not None else (request.approvers,)
    return any(user_id in some.users or not groups.isdisjoint(some.groups) for some in asked)


# -- what follows --------------------------------------------------------------------------------


def outcome_of_expiry(on_expiry: OnExpiry) -> ApprovalOutcome:
    outcomes: dict[OnExpiry, ApprovalOutcome] = {
        "fail": "failed",
        "deny": "denied",
        "approve": "approved",
        "default": "defaulted",
    }
    return outcomes[on_expiry]


def goes_on(outcome: ApprovalOutcome, on_denial: OnDenial) -> bool:
    """Whether the job is RUNNING again; otherwise it has FAILED."""
    return outcome in ("approved", "defaulted") or (outcome == "denied" and on_denial == "raise")


def denial_message(by: str, reason: str | None) -> str:
    return f"Approval denied by {by}: {reason}" if reason else f"Approval denied by {by}"


def expiry_message(outcome: ApprovalOutcome, ttl_seconds: float) -> str:
    length = duration(ttl_seconds)
    return f"Approval timed out after {length}." if outcome == "failed" else f"Approval denied: nobody decided within {length}."


def duration(seconds: float) -> str:
    """In the largest unit that divides it: `24 hours`, `90 minutes`, `1 second`."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length and seconds % length == 0 and (unit != "day" or seconds > length):
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


# -- checks --------------------------------------------------------------------------------------


def _quorum(value: Any, approvers: Approvers) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_QUORUM:
        raise InvalidInput(f"quorum must be a whole number from 1 to {LARGEST_QUORUM}, not {value!r:.80}.", field="quorum")
    if approvers.users and not approvers.groups and value > len(set(approvers.users)):
        raise InvalidInput(f"quorum is {value}, but only {len(set(approvers.users))} may decide.", field="quorum")
    return value


def _text(value: Any, field: str, limit: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > limit:
        raise InvalidInput(f"{field} must be text of 1 to {limit:,} characters, not {value!r:.80}.", field=field)
    return str(normal(value, field))


def _one_of(value: Any, known: Any, field: str) -> Any:
    names = get_args(known)
    if value not in names:
        quoted = [f'"{name}"' for name in names]
        raise InvalidInput(f"{field} must be {', '.join(quoted[:-1])} or {quoted[-1]}, not {value!r:.80}.", field=field)
    return value
