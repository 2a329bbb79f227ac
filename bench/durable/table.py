"""The comparison of durable steps as people read it: a table for each store, a column for each system."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.durable.story import AT_ONCE, LONG_STEPS, STEPS
from bench.durable.systems import System
from bench.durable.targets import STORES
from bench.readings import Readings
from bench.systems import OURS, StoreName
from bench.targets import Verdict

MEASURES = {
    "many": f"{AT_ONCE} at once, {STEPS} steps each, empty results",
    "large": f"{AT_ONCE} at once, {STEPS} steps each, 4 KiB results",
    "alone": f"one after the other, {STEPS} steps each",
    "long": f"one alone, {LONG_STEPS} steps",
}


def show(console: Console, systems: Sequence[System], readings: Readings, verdicts: Sequence[Verdict]) -> None:
    for store in STORES:
        console.print(_table(store, [system for system in systems if system.store in (store, None)], readings))
    for verdict in verdicts:
        console.print(f"[{'green' if verdict.met else 'red'}]{verdict}", highlight=False)


def _table(store: StoreName, systems: Sequence[System], readings: Readings) -> Table:
    title = f"{store}: durable steps per second, the median round, the range, and how many times better ours is"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for system in systems:
        table.add_column(f"{system.name}\n[dim]{system.setting}", justify="right")
    for measure, name in MEASURES.items():
        table.add_row(name, *(_cell(readings, store, system.name, measure) for system in systems), end_section=True)
    return table


def _cell(readings: Readings, store: StoreName, system: str, measure: str) -> str:
    values = readings.all(store, system, measure)
    lines = [f"{readings.typical(store, system, measure):,.0f}"]
    if len(values) > 1:
        lines.append(f"[dim]{min(values):,.0f} to {max(values):,.0f}[/]")
    if system != OURS:
        lines.append(f"[dim]ours {readings.ratio(store, measure, OURS, system):.1f} x[/]")
    return "\n".join(lines)
