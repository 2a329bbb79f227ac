"""What operators set for the gate, a queue, an agent or a tenant: pauses, limits, fair shares, budgets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal


class Scope(StrEnum):
    GATE = "gate"
    QUEUE = "queue"
    AGENT = "agent"
    TENANT = "tenant"


OnExhausted = Literal["refuse", "pause"]


@dataclass(frozen=True, slots=True)
class Control:
    """What is set for one thing. The gate's name is empty, a tenant's is its id."""

    scope: Scope
    name: str
    paused: bool = False
    paused_by: str | None = None
    paused_at: datetime | None = None
    pause_reason: str | None = None
    max_running: int | None = None
    fair_share: bool = False
    budget_cents: int | None = None
    on_exhausted: OnExhausted | None = None
    updated_by: str | None = None
    updated_at: datetime | None = None

    @property
    def says_nothing(self) -> bool:
        return not self.paused and self.max_running is None and not self.fair_share and self.budget_cents is None

    @property
    def needs_lanes(self) -> bool:
        """Whether the jobs of each tenant concerned must wait apart from those of others."""
        return self.fair_share or (self.scope is Scope.TENANT and (self.paused or self.max_running is not None))


def paused(control: Control, by: str | None, reason: str | None) -> Control:
    """Who paused it first keeps the word; pausing it again changes nothing."""
    return control if control.paused else replace(control, paused=True, paused_by=by, pause_reason=reason)


def resumed(control: Control) -> Control:
    return replace(control, paused=False, paused_by=None, paused_at=None, pause_reason=None)
