"""How pauses and limits look in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from cortex_plane.adapters.cli.output import table, words
from cortex_plane.core.controls import Control


def controls_table(controls: Sequence[Control]) -> Table:
    rows = [[words(control.scope), words(control.name or "everything"), words(what_is_set(control))] for control in controls]
    return table(["what", "name", "set"], rows)


def what_is_set(control: Control) -> str:
    """In words, for people."""
    parts = []
    if control.paused:
        by = f" by {control.paused_by}" if control.paused_by else ""
        since = f" since {control.paused_at:%Y-%m-%d %H:%M} UTC" if control.paused_at else ""
        reason = f": {control.pause_reason}" if control.pause_reason else ""
        parts.append(f"paused{by}{since}{reason}")
    if control.max_running is not None:
        parts.append(f"at most {control.max_running} running")
    if control.fair_share:
        parts.append("tenants take turns")
    if control.budget_cents is not None:
        parts.append(f"budget {control.budget_cents / 100:.2f}, then {control.on_exhausted}")
    return "; ".join(parts)


def as_document(control: Control) -> dict[str, Any]:
    return {
        "scope": control.scope,
        "name": control.name,
        "paused": control.paused,
        "paused_by": control.paused_by,
        "paused_at": control.paused_at,
        "pause_reason": control.pause_reason,
        "max_running": control.max_running,
        "fair_share": control.fair_share,
        "budget_cents": control.budget_cents,
        "on_exhausted": control.on_exhausted,
    }
