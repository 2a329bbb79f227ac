"""Who did what to which object, from where and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cortex_plane.core.normal_json import normal


@dataclass(frozen=True, slots=True)
class AuditEntry:
    action: str
    object_type: str
    object_id: str
    actor: str | None = None
    reason: str | None = None
    source: str | None = None
    tenant_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """With its details in normal form: jsonb would round a number that is not, and the seals of two stores would differ."""
        return {
            "action": self.action,
            "object_type": self.object_type,
            "object_id": self.object_id,
            "actor": self.actor,
            "reason": self.reason,
            "source": self.source,
            "tenant_id": self.tenant_id,
            "details": normal(self.details, "details") or None,
        }


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry as it is stored: `seq` is the order in which entries were written."""

    seq: int
    at: datetime
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries somebody asks for; None asks for all. `since` is included, `until` is not."""

    actor: str | None = None
    action: str | None = None
    object_id: str | None = None
    tenant_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """`next_before` is where the next page begins; None when everything was looked at. A page may be short, or empty, and still
    not be the last: what is rare is looked for in steps."""

    records: list[AuditRecord]
    next_before: int | None
