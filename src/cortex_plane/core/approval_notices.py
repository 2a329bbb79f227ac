"""A request as the message that asks somebody about it, and how it ended as the message that says so."""

from __future__ import annotations

from cortex_plane.core.approval_messages import ApprovalMessage, ClosedMessage, Closing, Sent
from cortex_plane.core.approval_texts import TITLE_LIMIT, one_line
from cortex_plane.core.approval_tokens import ApprovalToken
from cortex_plane.core.approvals import ApprovalRequest, Notification, Purpose
from cortex_plane.core.derived_ids import derived_id

_LEADS: dict[Purpose, str] = {"remind": "Reminder: ", "escalate": "Escalated to you: "}


def message_of(request: ApprovalRequest, purpose: Purpose, token: ApprovalToken, public_url: str) -> ApprovalMessage:
    """`public_url` is where approvers reach the plane; what is behind it must be what the HTTP API serves."""
    base, secret = public_url.rstrip("/"), token.plaintext
    return ApprovalMessage(
        title=_title(request, purpose),
        summary=_summary(request),
        details=request.action_details,
        agent=request.agent,
        job_id=request.job_id,
        request_id=request.id,
        expires_at=request.expires_at,
        approve_url=f"{base}/api/approvals/{secret}/approve",
        deny_url=f"{base}/api/approvals/{secret}/deny",
        page_url=f"{base}/approvals/{secret}",
        token=secret,
    )


def closed_of(request: ApprovalRequest) -> ClosedMessage:
    """Of a request that is closed."""
    assert request.closed_at is not None
    return ClosedMessage(_closing(request), request.decided_by_name, request.reason, request.closed_at)


def sent_of(notification: Notification) -> Sent:
    where = notification.where if isinstance(notification.where, dict) else {}
    return Sent(notification.message_id or "", where)


def key_of(request: ApprovalRequest, notification: Notification) -> str:
    """Names one message of a request without telling anything about it."""
    parts = (notification.user_account_id, notification.channel_type, notification.channel_user_id, notification.message_id)
    return derived_id(request.id, "\n".join(map(str, parts)))


def _closing(request: ApprovalRequest) -> Closing:
    return "cancelled" if request.decision is None else request.decision


def _title(request: ApprovalRequest, purpose: Purpose) -> str:
    first = request.action_summary.strip().splitlines()[0]
    return _LEADS.get(purpose, "") + one_line(first)


def _summary(request: ApprovalRequest) -> str:
    """What the title does not say already."""
    text = request.action_summary.strip()
    said = len(text) <= TITLE_LIMIT and len(text.splitlines()) == 1
    missing = f"It needs {request.quorum} approvals; {request.votes} so far." if request.quorum > 1 else ""
    return "\n\n".join(filter(None, ["" if said else text, missing]))
