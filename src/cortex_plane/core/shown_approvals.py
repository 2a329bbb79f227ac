"""An approval request as others are shown it: without the addresses at which its approvers were reached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from cortex_plane.core.approvals import ApprovalDecision, ApprovalId, ApprovalOutcome, ApprovalRequest, OnDenial, OnExpiry
from cortex_plane.core.jobs import JobId, RunId, TenantId
from cortex_plane.core.people import UserGroupId, UserId

State = Literal["open", "approved", "denied", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class ShownApproval:
    id: ApprovalId
    state: State
    job_id: JobId
    run_id: RunId
    agent: str
    tenant_id: TenantId
    gate: str
    summary: str
    details: Any
    editable: Any
    quorum: int
    votes: int
    designated: bool
    approver_users: list[UserId]
    approver_groups: list[UserGroupId]
    no_self_approval: bool
    on_expiry: OnExpiry
    on_denial: OnDenial
    created_at: datetime
    expires_at: datetime
    reminders: int
    escalated_at: datetime | None
    decision: ApprovalDecision | None
    outcome: ApprovalOutcome | None
    decided_by: str | None
    reason: str | None
    edited_details: Any
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ShownNotification:
    """How one approver was told, or why not yet: `error` is of the last try."""

    to: str
    channel: str
    sent_at: datetime | None
    message_id: str | None
    error: str | None


def state_of(request: ApprovalRequest) -> State:
    if request.is_open:
        return "open"
    return "cancelled" if request.decision is None else request.decision


def shown(request: ApprovalRequest) -> ShownApproval:
    return ShownApproval(
        id=request.id,
        state=state_of(request),
        job_id=request.job_id,
        run_id=request.run_id,
        agent=request.agent,
        tenant_id=request.tenant_id,
        gate=request.gate_key,
        summary=request.action_summary,
        details=request.action_details,
        editable=request.editable,
        quorum=request.quorum,
        votes=request.votes,
        designated=request.designated,
        approver_users=list(request.approvers.users),
        approver_groups=list(request.approvers.groups),
        no_self_approval=request.no_self_approval,
        on_expiry=request.on_expiry,
        on_denial=request.on_denial,
        created_at=request.created_at,
        expires_at=request.expires_at,
        reminders=request.reminders,
        escalated_at=request.escalated_at,
        decision=request.decision,
        outcome=request.outcome,
        decided_by=request.decided_by_name,
        reason=request.reason,
        edited_details=request.edited_details,
        closed_at=request.closed_at,
    )
