"""Approvals: what is asked of people, who may decide, and what follows.

open ──▶ approved ─▶ RUNNING
     ──▶ denied ───▶ FAILED, or RUNNING where the handler is to hear of it
     ──▶ expired ──▶ as `on_expiry` says: fail, deny, approve, or go on with a default
     ──▶ cancelled, with its job

`decision` is what people did (or did not do in time); `outcome` is what that means for the job.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, NewType

from cortex_plane.core.errors import Conflict, InvalidInput, NotFound
from cortex_plane.core.jobs import AgentId, JobId, RunId, TenantId
from cortex_plane.core.normal_json import Json, normal
from cortex_plane.core.people import UserGroupId, UserId

ApprovalId = NewType("ApprovalId", str)

Verdict = Literal["approved", "denied"]
ApprovalDecision = Literal["approved", "denied", "expired"]
ApprovalOutcome = Literal["approved", "denied", "failed", "defaulted", "cancelled"]
OnExpiry = Literal["fail", "deny", "approve", "default"]
OnDenial = Literal["fail", "raise"]
Purpose = Literal["ask", "remind", "escalate", "settle"]

NOTIFY_AGENT = "cortex.notify"
"""Its jobs have the payload {"approval_request_id", "user_account_id", "purpose"}; a token is never in one."""


@dataclass(frozen=True, slots=True)
class Approvers:
    """Who is asked, by id; nobody named means whoever the session or the tenant has for it."""

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
    """A checked request; `core.approval_rules.new_approval` makes one of what a handler asks for.

    `token_hash` is the hash of a token that is never sent: it ties the waiting job to this request. `action_details`,
    `editable` and `default` are in normal form.
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

    @property
    def digest(self) -> str:
        return digest_of(self.tenant_id, self.job_id, self.gate_key, self.action_summary, self.action_details)


@dataclass(frozen=True, slots=True)
class Notification:
    """A message to one approver, as it is kept: enough to edit it, and no secret. With an `error` it was not sent, so far."""

    user_account_id: UserId
    channel_type: str
    channel_user_id: str = field(repr=False)
    message_id: str | None
    where: Json = field(default=None, repr=False)
    notification_sent_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """`by` is what others are shown of the voter; `door` is where the vote came from."""

    user_id: UserId
    by: str
    decision: Verdict
    reason: str | None
    door: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request as the database holds it."""

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
    """Only `approvers` may decide (and, once escalated, `escalate_to`); otherwise whoever may approve in the tenant."""
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
    """What others are shown of them."""
    reason: str | None
    edited_details: Json
    used_at: datetime | None
    closed_at: datetime | None
    notifications: tuple[Notification, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.outcome is None

    @property
    def is_as_shown(self) -> bool:
        """What is stored is still what was asked."""
        return self.digest == digest_of(self.tenant_id, self.job_id, self.gate_key, self.action_summary, self.action_details)

    @property
    def details(self) -> Json:
        """What was approved: as it was shown, or as the approver changed it."""
        return self.action_details if self.edited_details is None else self.edited_details


def digest_of(tenant_id: TenantId, job_id: JobId, gate_key: str, summary: str, details: Any) -> str:
    """SHA-256 over the normal form of what was shown, where, and for whom."""
    shown = {"tenant": tenant_id, "job": job_id, "gate": gate_key, "summary": summary, "details": details}
    text = json.dumps(normal(shown), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


class ApprovalNotFound(NotFound):
    def __init__(self, request_id: str) -> None:
        super().__init__(f"There is no approval {request_id}. To see what waits: cortex approvals list")
        self.request_id = request_id


class ApprovalClosed(Conflict):
    def __init__(self, request_id: str) -> None:
        super().__init__(f"Approval {request_id} is closed or out of time; nobody is to be asked any more.")
        self.request_id = request_id


class AmbiguousApproval(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} fits {len(matches)} approvals or more: {', '.join(matches[:3])}, … Give more of the id.", field="id"
        )
