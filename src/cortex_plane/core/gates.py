"""What a handler says when it asks for an approval, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from cortex_plane.core.approvals import ApprovalRequest
from cortex_plane.core.normal_json import Json

Names = str | Sequence[str]
"""Users by name, groups as `group:NAME`; one, or several."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """Who may decide as well, and is asked, when nobody has decided for so long."""

    to: Names
    after: float | timedelta


@dataclass(frozen=True, slots=True)
class Gate:
    """One request as the handler words it. Nothing of it is checked yet."""

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


@dataclass(frozen=True, slots=True)
class Approval:
    """What people decided.

    `details` is what holds now: as it was shown, as the approver changed it (`edited`), or the gate's default when nobody
    decided in time. `decided_by` is a name; None when nobody decided.
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
        """Of a request that is closed, and lets its job go on."""
        match request.outcome:
            case "approved":
                outcome: Literal["approved", "denied", "defaulted"] = "approved"
            case "defaulted":
                outcome = "defaulted"
            case _:
                outcome = "denied"
        details = request.default if outcome == "defaulted" else request.details
        reason = "nobody decided in time" if request.decision == "expired" else request.reason
        return cls(outcome, request.decided_by_name, reason, details, request.edited_details is not None)
