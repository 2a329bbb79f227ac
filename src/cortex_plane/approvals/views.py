"""Approval requests as the API returns them, and the check of links in messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from cortex_plane.approvals.model import (
    ApprovalDecision,
    ApprovalId,
    ApprovalOutcome,
    ApprovalRequest,
    OnDenial,
    OnExpiry,
    Superseded,
)
from cortex_plane.jobs.model import JobId, RunId, TenantId
from cortex_plane.people.model import UserGroupId, UserId

State = Literal["open", "approved", "denied", "expired", "cancelled", "superseded"]


@dataclass(frozen=True, slots=True)
class ApprovalView:
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
    supersedes: ApprovalId | None = None
    """The earlier request for the same gate, with another wording."""
    superseded: Superseded | None = None
    """Summary of that request: its text and outcome."""
    why_again: str | None = None
    """Why approvers are asked again, as they see it."""


@dataclass(frozen=True, slots=True)
class NotificationView:
    """Delivery to one approver; `error` is that of the last attempt."""

    to: str
    channel: str
    sent_at: datetime | None
    message_id: str | None
    error: str | None


def state_of(request: ApprovalRequest) -> State:
    if request.is_open:
        return "open"
    if request.decision is None:
        return "superseded" if request.outcome == "superseded" else "cancelled"
    return request.decision


def approval_view(request: ApprovalRequest) -> ApprovalView:
    return ApprovalView(
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
        supersedes=None if request.supersedes is None else request.supersedes.id,
        superseded=request.supersedes,
        why_again=request.why_again or None,
    )


# -- links -------------------------------------------------------------------------------------
# Whether the links in messages to approvers point to this server.


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def problem_with_links(public_url: str, port: int, *, messages_go_out: bool) -> tuple[str, str] | None:
    """Returns what is wrong and what to do, or None. `messages_go_out`: approvers are notified by chat or e-mail, so they are
    probably on other machines."""
    parts = urlsplit(public_url)
    if parts.hostname not in LOOPBACK:
        return None  # A proxy or a name of this machine: whether approvers can reach it cannot be checked here.
    leads_to = parts.port or (443 if parts.scheme == "https" else 80)
    if port and leads_to != port:
        return (
            f"Links in messages to approvers lead to {public_url}, but the server listens on port {port}.",
            f"Set CORTEX_PUBLIC_URL on the server and all workers to the address that approvers use, such as http://localhost:{port}.",
        )
    if messages_go_out:
        return (
            f"Links in messages to approvers lead to {public_url}, which only this machine can reach.",
            "Set CORTEX_PUBLIC_URL on the server and all workers to the address that approvers use, such as https://cortex.example.com.",
        )
    return None
