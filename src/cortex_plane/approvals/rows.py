"""Converts between database rows and approval values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.approvals.model import ApprovalId, ApprovalRequest, Approvers, NewApproval, Notification, Superseded, Vote
from cortex_plane.approvals.rules import Voter
from cortex_plane.clock import as_text, instant
from cortex_plane.jobs.model import AgentId, JobId, RunId, TenantId
from cortex_plane.json import dumps, loads
from cortex_plane.people.model import User, UserGroupId, UserId
from cortex_plane.storage import rows

if TYPE_CHECKING:
    from cortex_plane.storage.database import Row


def new_values(request: NewApproval) -> dict[str, Any]:
    """Column values of a new request."""
    return {
        "id": request.id,
        "job_id": request.job_id,
        "run_id": request.run_id,
        "tenant_id": request.tenant_id,
        "gate_key": request.gate_key,
        "token_hash": request.token_hash,
        "agent_id": request.agent_id,
        "escalate_to": dumps(request.escalate_to.to_json()),
        "action_summary": request.action_summary,
        "action_details": dumps(request.action_details),
        "digest": request.digest,
        "quorum": request.quorum,
        "no_self_approval": request.no_self_approval,
        "editable": dumps(request.editable),
        "on_expiry": request.on_expiry,
        "default_value": dumps(request.default),
        "on_denial": request.on_denial,
        "supersedes": request.supersedes,
        "ttl_seconds": request.ttl_seconds,
        "remind_after_seconds": request.remind_after_seconds,
    }


def approval_request(row: Row) -> ApprovalRequest:
    return ApprovalRequest(
        id=ApprovalId(str(row["id"])),
        job_id=JobId(str(row["job_id"])),
        run_id=RunId(str(row["run_id"])),
        agent_id=AgentId(str(row["requested_by_agent_id"])),
        agent=row["agent"],
        tenant_id=TenantId(str(row["tenant_id"])),
        gate_key=row["gate_key"],
        action_summary=row["action_summary"],
        action_details=loads(row["action_details"]),
        digest=row["digest"],
        designated=bool(row["designated"]),
        approvers=Approvers.from_json(loads(row["approvers"])),
        escalate_to=Approvers.from_json(loads(row["escalate_to"])),
        quorum=row["quorum"],
        votes=row["votes"],
        no_self_approval=bool(row["no_self_approval"]),
        editable=loads(row["editable"]),
        on_expiry=row["on_expiry"],
        default=loads(row["default_value"]),
        on_denial=row["on_denial"],
        created_at=rows.moment(row["created_at"]),
        expires_at=rows.moment(row["expires_at"]),
        ttl_seconds=row["ttl_seconds"],
        remind_at=rows.moment_or_none(row["remind_at"]),
        reminders=row["reminders"],
        escalate_at=rows.moment_or_none(row["escalate_at"]),
        escalated_at=rows.moment_or_none(row["escalated_at"]),
        decision=row["decision"],
        outcome=row["outcome"],
        decided_by=rows.text_or_none(row["decided_by"]),
        decided_by_name=row["decided_by_name"],
        reason=row["reason"],
        edited_details=rows.json_or_none(row["edited_details"]),
        used_at=rows.moment_or_none(row["used_at"]),
        closed_at=rows.moment_or_none(row["closed_at"]),
        notifications=tuple(notification(stored) for stored in loads(row["notification_channels"])),
        supersedes=_superseded(row),
    )


def _superseded(row: Row) -> Superseded | None:
    if row["superseded_job_id"] is None:
        return None
    return Superseded(
        id=ApprovalId(str(row["supersedes"])),
        job_id=JobId(str(row["superseded_job_id"])),
        summary=row["superseded_summary"],
        outcome=row["superseded_outcome"],
        decided_by=row["superseded_by_name"],
        closed_at=rows.moment_or_none(row["superseded_closed_at"]),
    )


def vote(row: Row) -> Vote:
    user_id = UserId(str(row["user_account_id"]))
    return Vote(user_id, row["name"], row["decision"], row["reason"], row["door"], rows.moment(row["created_at"]))


def voter(row: Row, groups: frozenset[UserGroupId]) -> Voter:
    return Voter(user(row), groups, bool(row["may_approve"]), bool(row["is_submitter"]))


def user(row: Row) -> User:
    return User(
        id=UserId(str(row["id"])),
        name=row["name"],
        display_name=row["display_name"],
        email=row["email"],
        created_at=rows.moment(row["created_at"]),
        disabled_at=rows.moment_or_none(row["disabled_at"]),
        owner_id=rows.text_or_none(row["owner_id"]),
    )


def notification(stored: dict[str, Any]) -> Notification:
    return Notification(
        user_account_id=UserId(stored["user_account_id"]),
        channel_type=stored["channel_type"],
        channel_user_id=stored["channel_user_id"],
        message_id=stored["message_id"],
        where=stored.get("where"),
        notification_sent_at=rows.moment_of_text_or_none(stored["notification_sent_at"]),
        error=stored.get("error"),
    )


def stored_notification(sent: Notification, at: Any) -> dict[str, Any]:
    sent_at = None if sent.error is not None else as_text(instant(sent.notification_sent_at or rows.moment(at)))
    return {
        "user_account_id": sent.user_account_id,
        "channel_type": sent.channel_type,
        "channel_user_id": sent.channel_user_id,
        "message_id": sent.message_id,
        "where": sent.where,
        "notification_sent_at": sent_at,
        **({} if sent.error is None else {"error": sent.error}),
    }
