"""What work has cost, what it may cost, and what follows when a budget is set, spent or removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import TenantId
from cortex_plane.queues.model import Control, OnExhausted, Scope, resumed

LARGEST_SUM_CENTS = 10**12
BY_BUDGET = "budget"
"""Who paused an agent or a tenant whose budget was spent."""


@dataclass(frozen=True, slots=True)
class CostTotal:
    """What the jobs of one agent have cost one tenant, deleted ones included."""

    tenant_id: TenantId
    tenant: str
    job_type: str
    cents: int


@dataclass(frozen=True, slots=True)
class Budget:
    """`name` is an agent's name or a tenant's id, as in a control; `label` is what people call it."""

    scope: Scope
    name: str
    label: str
    cents: int
    spent_cents: int
    on_exhausted: OnExhausted
    paused: bool = False

    @property
    def exhausted(self) -> bool:
        return self.spent_cents >= self.cents


def with_budget(control: Control, cents: int, on_exhausted: OnExhausted, spent_cents: int) -> Control:
    """A pause that the old budget made ends with it, unless the new one is spent as well; anybody else's pause stays."""
    changed = replace(control, budget_cents=cents, on_exhausted=on_exhausted)
    holds_on = on_exhausted == "pause" and spent_cents >= cents
    return changed if holds_on else _without_its_pause(changed)


def without_budget(control: Control) -> Control:
    return _without_its_pause(replace(control, budget_cents=None, on_exhausted=None))


def _without_its_pause(control: Control) -> Control:
    return resumed(control) if control.paused and control.paused_by == BY_BUDGET else control


def check_cents(cents: Any, field: str = "cents") -> int:
    if isinstance(cents, bool) or not isinstance(cents, int) or not 0 <= cents <= LARGEST_SUM_CENTS:
        raise InvalidInput(
            f"{field} must be a whole number from 0 to {LARGEST_SUM_CENTS:,}, not {cents!r:.80}. "
            "Parts of a cent cannot be stored: add them up first, then round.",
            field=field,
        )
    return cents


def check_on_exhausted(value: Any) -> OnExhausted:
    if value not in get_args(OnExhausted):
        raise InvalidInput(
            f'on_exhausted must be "refuse" (no new jobs) or "pause" (nothing runs), not {value!r:.80}.', field="on_exhausted"
        )
    chosen: OnExhausted = value
    return chosen
