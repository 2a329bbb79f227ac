"""Approval requests, votes and notifications; what a handler passes to `ctx.approval` and gets back.

open ──▶ approved ─▶ RUNNING
     ──▶ denied ───▶ FAILED, or RUNNING with on_denial="raise"
     ──▶ expired ──▶ by `on_expiry`: fail, deny, approve, or continue with a default
     ──▶ cancelled, with its job
     ──▶ superseded: the code changed the wording, and asks again

`decision` is what the approvers decided, or "expired"; `outcome` is what follows for the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NewType

from cortex_plane.errors import Conflict, InvalidInput, NotFound
from cortex_plane.jobs.model import AgentId, JobId, RunId, TenantId
from cortex_plane.json import Json, normal
from cortex_plane.people.model import UserGroupId, UserId

ApprovalId = NewType("ApprovalId", str)

Verdict = Literal["approved", "denied"]
ApprovalDecision = Literal["approved", "denied", "expired"]
ApprovalOutcome = Literal["approved", "denied", "failed", "defaulted", "cancelled", "superseded"]
OnExpiry = Literal["fail", "deny", "approve", "default"]
OnDenial = Literal["fail", "raise"]
OnChange = Literal["ask", "keep", "fail"]
Purpose = Literal["ask", "remind", "escalate", "settle"]

NOTIFY_AGENT = "cortex.notify"
"""The payload of its jobs is {"approval_request_id", "user_account_id", "purpose"}. It never contains a token."""


@dataclass(frozen=True, slots=True)
class Approvers:
    """The approvers by id. Empty: the user of the job's session, or all approvers of the tenant."""

    users: tuple[UserId, ...] = ()
    groups: tuple[UserGroupId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.users or self.groups)

    def to_json(self) -> dict[str, list[str]]:
        return {"users": list(self.users), "groups": list(self.groups)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Approvers:
        return cls(tuple(map(UserId, stored.get("users", ()))), tuple(map(UserGroupId, stored.get("groups", ()))))


NOBODY = Approvers()


@dataclass(frozen=True, slots=True)
class NewApproval:
    """A validated request, created by `approvals.rules.new_approval`.

    `token_hash` is the hash of a token that is never sent. It links the waiting job to this request. `action_details`,
    `editable` and `default` are canonical JSON.
    """

    id: ApprovalId
    job_id: JobId
    run_id: RunId
    agent_id: AgentId
    tenant_id: TenantId
    gate_key: str
    action_summary: str
    ttl_seconds: float
    token_hash: str = field(repr=False)
    action_details: Json = None
    approvers: Approvers = NOBODY
    quorum: int = 1
    no_self_approval: bool = False
    editable: Json = False
    """False, True, a list of the keys that may change, or a JSON Schema that the edited details must match."""
    remind_after_seconds: float | None = None
    escalate_after_seconds: float | None = None
    escalate_to: Approvers = NOBODY
    on_expiry: OnExpiry = "fail"
    default: Json = None
    on_denial: OnDenial = "fail"
    supersedes: ApprovalId | None = None
    """The earlier request for the same gate, with another wording."""

    @property
    def digest(self) -> str:
        return digest_of(self.tenant_id, self.job_id, self.gate_key, self.action_summary, self.action_details)


@dataclass(frozen=True, slots=True)
class Notification:
    """A stored message to one approver: enough to edit it, and no secret. With an `error`, the last attempt to send failed."""

    user_account_id: UserId
    channel_type: str
    channel_user_id: str = field(repr=False)
    message_id: str | None
    where: Json = field(default=None, repr=False)
    notification_sent_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """`by` is the display name of the voter; `door` is the interface that the vote came from."""

    user_id: UserId
    by: str
    decision: Verdict
    reason: str | None
    door: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Superseded:
    """Summary of the earlier request for the same gate, shown with its successor."""

    id: ApprovalId
    job_id: JobId
    summary: str
    outcome: ApprovalOutcome | None
    decided_by: str | None
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A stored request."""

    id: ApprovalId
    job_id: JobId
    run_id: RunId
    agent_id: AgentId
    agent: str
    tenant_id: TenantId
    gate_key: str
    action_summary: str
    action_details: Json
    digest: str
    designated: bool
    """True: only `approvers` may decide (and, once escalated, `escalate_to`). False: all approvers of the tenant may."""
    approvers: Approvers
    escalate_to: Approvers
    quorum: int
    votes: int
    no_self_approval: bool
    editable: Json
    on_expiry: OnExpiry
    default: Json
    on_denial: OnDenial
    created_at: datetime
    expires_at: datetime
    ttl_seconds: float
    remind_at: datetime | None
    reminders: int
    escalate_at: datetime | None
    escalated_at: datetime | None
    decision: ApprovalDecision | None
    outcome: ApprovalOutcome | None
    decided_by: UserId | None
    decided_by_name: str | None
    """Display name of the user who decided."""
    reason: str | None
    edited_details: Json
    used_at: datetime | None
    closed_at: datetime | None
    notifications: tuple[Notification, ...] = ()
    supersedes: Superseded | None = None

    @property
    def is_open(self) -> bool:
        return self.outcome is None

    @property
    def why_again(self) -> str:
        """Why approvers are asked again; empty for the first request."""
        earlier = self.supersedes
        if earlier is None:
            return ""
        by = f" by {earlier.decided_by}" if earlier.decided_by else ""
        was = "not decided" if earlier.outcome in (None, "cancelled", "superseded") else f"{earlier.outcome}{by}"
        if earlier.job_id != self.job_id:
            return f"Asked again: the job is run again. In its first run this was {was}."
        return (
            f"Asked again: the agent's code has changed the wording of this request. The earlier request was {was}; "
            "that decision does not apply to this one."
        )

    @property
    def is_as_shown(self) -> bool:
        """Whether the stored text still matches the digest that was taken when the request was opened."""
        return self.digest == digest_of(self.tenant_id, self.job_id, self.gate_key, self.action_summary, self.action_details)

    @property
    def details(self) -> Json:
        """The details as edited by the approver, or else as shown."""
        return self.action_details if self.edited_details is None else self.edited_details


def digest_of(tenant_id: TenantId, job_id: JobId, gate_key: str, summary: str, details: Any) -> str:
    """SHA-256 of the canonical JSON of tenant, job, gate, summary and details."""
    shown = {"tenant": tenant_id, "job": job_id, "gate": gate_key, "summary": summary, "details": details}
    text = json.dumps(normal(shown), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


class ApprovalNotFound(NotFound):
    def __init__(self, request_id: str) -> None:
        super().__init__(f"There is no approval {request_id}. To list open approvals: cortex approvals list")
        self.request_id = request_id


class ApprovalClosed(Conflict):
    def __init__(self, request_id: str) -> None:
        super().__init__(f"Approval {request_id} is closed or expired, so no reminder was sent.")
        self.request_id = request_id


class AmbiguousApproval(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} matches {len(matches)} or more approvals: {', '.join(matches[:3])}, … Give more characters of the id.",
            field="id",
        )


# -- gates -------------------------------------------------------------------------------------
# What a handler passes to `ctx.approval`, and what it gets back.


Names = str | Sequence[str]
"""One or several names of users, or `group:NAME` for groups."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """Additional approvers, who are asked if there is no decision after `after`."""

    to: Names
    after: float | timedelta


@dataclass(frozen=True, slots=True)
class Gate:
    """One request as the handler passed it, not yet validated."""

    summary: str
    details: Any = None
    approvers: Names | None = None
    quorum: int = 1
    ttl: float | timedelta | None = None
    remind: float | timedelta | None = None
    escalate: Escalation | None = None
    on_expiry: str = "fail"
    default: Any = None
    on_denial: str = "fail"
    editable: Any = False
    no_self_approval: bool = False
    on_change: str = "ask"


@dataclass(frozen=True, slots=True)
class Approval:
    """The result of an approval.

    `details` are the details as shown, as the approver changed them (`edited`), or the gate's default if the request
    expired. `decided_by` is a name; None if the request expired.
    """

    outcome: Literal["approved", "denied", "defaulted"]
    decided_by: str | None
    reason: str | None
    details: Any
    edited: bool = False

    @property
    def approved(self) -> bool:
        return self.outcome == "approved"

    def to_json(self) -> dict[str, Json]:
        return {
            "outcome": self.outcome,
            "decided_by": self.decided_by,
            "reason": self.reason,
            "details": self.details,
            "edited": self.edited,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Approval:
        return cls(stored["outcome"], stored["decided_by"], stored["reason"], stored["details"], stored["edited"])

    @classmethod
    def of(cls, request: ApprovalRequest) -> Approval:
        """The result of a closed request whose job resumes."""
        match request.outcome:
            case "approved":
                outcome: Literal["approved", "denied", "defaulted"] = "approved"
            case "defaulted":
                outcome = "defaulted"
            case _:
                outcome = "denied"
        details = request.default if outcome == "defaulted" else request.details
        reason = "no decision in time" if request.decision == "expired" else request.reason
        return cls(outcome, request.decided_by_name, reason, details, request.edited_details is not None)
