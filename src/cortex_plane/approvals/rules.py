"""Lifetimes, reminders, escalation, quorum, and who may decide.

The lifetime of a request has a default per agent and a maximum per agent and plane. Values over the maximum are refused,
never reduced; the error names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, get_args

from cortex_plane.approvals.decisions import CheckSchema, NotAllowed, checked_editable
from cortex_plane.approvals.model import (
    NOBODY,
    ApprovalId,
    ApprovalOutcome,
    ApprovalRequest,
    Approvers,
    NewApproval,
    OnChange,
    OnDenial,
    OnExpiry,
)
from cortex_plane.errors import InvalidInput
from cortex_plane.json import normal
from cortex_plane.people.model import User, UserGroupId, UserId

if TYPE_CHECKING:
    from cortex_plane.jobs.model import AgentId, JobId, RunId, TenantId

SHORTEST_SECONDS = 1.0
DEFAULT_TTL_SECONDS = 86_400.0
DEFAULT_CEILING_SECONDS = 31_536_000.0
LONGEST_SECONDS = 100 * DEFAULT_CEILING_SECONDS


def checked_seconds(value: Any, field: str) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not fits or not SHORTEST_SECONDS <= value <= LONGEST_SECONDS:
        raise InvalidInput(f"{field} must be a number of seconds, from 1 to 100 years, not {value!r:.80}.", field=field)
    return float(value)


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """Default and maximum lifetime of an agent's requests, stored in `agent.skill_config`. Default maximum: the plane's."""

    token_ttl_seconds: float | None = None
    max_ttl_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.token_ttl_seconds is not None:
            checked_seconds(self.token_ttl_seconds, "approval.token_ttl_seconds")
        if self.max_ttl_seconds is not None:
            checked_seconds(self.max_ttl_seconds, "approval.max_ttl_seconds")
        usual, most = self.token_ttl_seconds, self.max_ttl_seconds
        if usual is not None and most is not None and usual > most:
            raise InvalidInput(
                f"approval_ttl is {duration(usual)}, but approval_max_ttl is {duration(most)}.",
                field="approval.token_ttl_seconds",
            )

    @property
    def _most(self) -> float:
        return DEFAULT_CEILING_SECONDS if self.max_ttl_seconds is None else self.max_ttl_seconds

    def under(self, ceiling_seconds: float) -> ApprovalConfig:
        """Applies the maximum of the plane. Raises InvalidInput if the agent's own maximum is greater."""
        if self.max_ttl_seconds is not None and self.max_ttl_seconds > ceiling_seconds:
            raise InvalidInput(
                f"approval_max_ttl is {duration(self.max_ttl_seconds)}, but the maximum of this plane is "
                f"{duration(ceiling_seconds)}. To allow it: CORTEX_APPROVAL_MAX_TTL_SECONDS",
                field="approval.max_ttl_seconds",
            )
        return replace(self, max_ttl_seconds=self.max_ttl_seconds or ceiling_seconds)

    def to_json(self) -> dict[str, float]:
        known = {"token_ttl_seconds": self.token_ttl_seconds, "max_ttl_seconds": self.max_ttl_seconds}
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ApprovalConfig:
        return cls(stored.get("token_ttl_seconds"), stored.get("max_ttl_seconds"))

    def ttl_seconds(self, asked: float | None) -> float:
        """Returns the requested lifetime, or the agent's default, or one day. Raises InvalidInput if it exceeds the maximum."""
        if asked is None:
            return min(DEFAULT_TTL_SECONDS, self._most) if self.token_ttl_seconds is None else self.token_ttl_seconds
        wanted = checked_seconds(asked, "ttl")
        if wanted > self._most:
            raise InvalidInput(
                f"ttl is {duration(wanted)}, but the maximum for this agent is {duration(self._most)}. "
                "To allow it: @plane.agent(..., approval_max_ttl=...), and the setting CORTEX_APPROVAL_MAX_TTL_SECONDS",
                field="ttl",
            )
        return wanted


USUAL_CONFIG = ApprovalConfig()


# -- approval rules ----------------------------------------------------------------------------
# Validates requests and checks who may decide. Pure functions.


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
    supersedes: ApprovalId | None = None,
    check_schema: CheckSchema,
) -> NewApproval:
    """Validates a request. Raises InvalidInput naming the field."""
    shown = normal(details, "details")
    ttl = config.ttl_seconds(ttl_seconds)
    if bool(escalate_to) != (escalate_after_seconds is not None):
        raise InvalidInput("escalate needs both `to` and `after`.", field="escalate")
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
        editable=checked_editable(editable, shown, quorum, check_schema),
        remind_after_seconds=_within(remind_after_seconds, ttl, "remind"),
        escalate_after_seconds=_within(escalate_after_seconds, ttl, "escalate"),
        escalate_to=escalate_to,
        on_expiry=_one_of(on_expiry, OnExpiry, "on_expiry"),
        default=normal(default, "default"),
        on_denial=_one_of(on_denial, OnDenial, "on_denial"),
        supersedes=supersedes,
    )


def checked_on_change(on_change: Any) -> OnChange:
    checked: OnChange = _one_of(on_change, OnChange, "on_change")
    return checked


def checked_reason(reason: Any) -> str | None:
    if reason is None or (isinstance(reason, str) and not reason.strip()):
        return None
    return _text(reason, "reason", REASON_LIMIT)


# -- who may decide ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Voter:
    """A user who wants to decide, with their relation to one request."""

    user: User
    groups: frozenset[UserGroupId] = frozenset()
    may_approve: bool = False
    """They have the role approver in the tenant of the request."""
    is_submitter: bool = False
    """They submitted the job, or it was started in their session."""


def refusal(request: ApprovalRequest, voter: Voter) -> NotAllowed | None:
    """Returns why this user may not decide this request, or None if they may."""
    if voter.user.disabled_at is not None:
        return NotAllowed("Your account is disabled.")
    if voter.user.owner_id is not None:
        return NotAllowed("Service accounts cannot decide approvals.")
    if not _is_asked(request, voter):
        return NotAllowed("You are not an approver of this request.")
    if request.no_self_approval and voter.is_submitter:
        return NotAllowed("You submitted this job, so another approver must decide.")
    if not request.is_as_shown:
        return NotAllowed(
            "The stored request does not match its digest: it was changed after it was opened. Cancel the job and investigate."
        )
    return None


def _is_asked(request: ApprovalRequest, voter: Voter) -> bool:
    return (not request.designated and voter.may_approve) or is_named(request, voter.user.id, voter.groups)


def is_named(request: ApprovalRequest, user_id: UserId, groups: frozenset[UserGroupId]) -> bool:
    """Whether the request names this user, directly or through a group."""
    asked = (request.approvers, request.escalate_to) if request.escalated_at is not None else (request.approvers,)
    return any(user_id in some.users or not groups.isdisjoint(some.groups) for some in asked)


def undecidable(quorum: int, votes: int, can_decide: int) -> str | None:
    """Returns why too few people can decide, or None if enough can. `can_decide` counts users who have not voted and may decide
    now or after escalation."""
    needed = quorum - votes
    if can_decide >= needed:
        return None
    more = "more " if votes else ""
    who = "no one" if can_decide == 0 else "only 1 person" if can_decide == 1 else f"only {can_decide} people"
    return (
        f"It needs {needed} {more}{'approval' if needed == 1 else 'approvals'}, but {who} can decide. "
        "Enable a disabled approver, give a user the role approver, add a user to the group, or cancel the job."
    )


# -- what follows --------------------------------------------------------------------------------
def outcome_of_expiry(on_expiry: OnExpiry) -> ApprovalOutcome:
    outcomes: dict[OnExpiry, ApprovalOutcome] = {
        "fail": "failed",
        "deny": "denied",
        "approve": "approved",
        "default": "defaulted",
    }
    return outcomes[on_expiry]


def resumes_job(outcome: ApprovalOutcome, on_denial: OnDenial) -> bool:
    """Whether the job resumes (RUNNING); otherwise it fails (FAILED)."""
    return outcome in ("approved", "defaulted") or (outcome == "denied" and on_denial == "raise")


def denial_message(by: str, reason: str | None) -> str:
    return f"Approval denied by {by}: {reason}" if reason else f"Approval denied by {by}"


def expiry_message(outcome: ApprovalOutcome, ttl_seconds: float) -> str:
    length = duration(ttl_seconds)
    return f"Approval timed out after {length}." if outcome == "failed" else f"Approval denied: no decision within {length}."


def duration(seconds: float) -> str:
    """In the largest unit that divides it: `24 hours`, `90 minutes`, `1 second`."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length and seconds % length == 0 and (unit != "day" or seconds > length):
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:.15g} second{'' if seconds == 1 else 's'}"


# -- checks --------------------------------------------------------------------------------------
def _within(seconds: Any, ttl: float, field: str) -> float | None:
    """Checks a duration that must be shorter than the lifetime of the request."""
    if seconds is None:
        return None
    checked = checked_seconds(seconds, field)
    if checked >= ttl:
        raise InvalidInput(f"{field} is {duration(checked)}, but the request expires after {duration(ttl)}.", field=field)
    return checked


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
