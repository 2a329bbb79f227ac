"""The comparison as people read it: a column for each system, our ratio to it in its cells."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.readings import Readings
from bench.systems import OURS, System
from bench.targets import Verdict

MEASURES = {
    "drain": ("drain, jobs/s", "{:,.0f}"),
    "submit_one": ("submit one by one, jobs/s", "{:,.0f}"),
    "submit_batch": ("submit in batches of 1,000", "{:,.0f}"),
    "latency_p50": ("pick-up, median ms", "{:.1f}"),
    "latency_p99": ("pick-up, 99th percentile ms", "{:.1f}"),
}


def show(console: Console, systems: Sequence[System], readings: Readings, verdicts: Sequence[Verdict]) -> None:
    for store in dict.fromkeys(system.store for system in systems):
        console.print(_table(store, [system for system in systems if system.store == store], readings))
    for verdict in verdicts:
        console.print(f"[{'green' if verdict.met else 'red'}]{verdict}", highlight=False)


def _table(store: str, systems: Sequence[System], readings: Readings) -> Table:
    table = Table(title=f"{store}: the median round, the range, and how many times better ours is", title_justify="left")
    table.add_column("")
    for system in systems:
        table.add_column(f"{system.name}\n[dim]{system.setting}\nkeeps {system.keeps}", justify="right")
    for measure, (title, form) in MEASURES.items():
        table.add_row(title, *(_cell(readings, system, measure, form) for system in systems), end_section=True)
    return table


def _cell(readings: Readings, system: System, measure: str, form: str) -> str:
    if not readings.has(system.store, system.name, measure):
        return "none"
    values = readings.all(system.store, system.name, measure)
    lines = [form.format(readings.typical(system.store, system.name, measure))]
    if len(values) > 1:
        lines.append(f"[dim]{form.format(min(values))} to {form.format(max(values))}[/]")
    if system.name != OURS and readings.has(system.store, OURS, measure):
        lines.append(f"[dim]ours {readings.ratio(system.store, measure, OURS, system.name):.2f} x[/]")
    return "\n".join(lines)
