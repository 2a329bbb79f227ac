"""The findings as people read them: a row for each property, a column for each system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from conformance.properties import SIX, Verdict

Findings = Mapping[str, Sequence[Verdict]]
SHOWN_KILLS = 3


def show(console: Console, store: str, findings: Findings) -> None:
    table = Table(title=f"{store}: held or broken, in how many trials", title_justify="left")
    table.add_column("")
    for system in findings:
        table.add_column(system, justify="right")
    for row in zip(*findings.values(), strict=True):
        table.add_row(row[0].name, *(_cell(verdict) for verdict in row), end_section=row[0].name == list(SIX)[-1])
    console.print(table)
    for system, verdicts in findings.items():
        _explain(console, system, verdicts)


def _cell(verdict: Verdict) -> str:
    colour = "green" if verdict.held else "red" if verdict.broken else "yellow"
    return f"[{colour}]{verdict.outcome}"


def _explain(console: Console, system: str, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.not_offered:
            console.print(f"{system}, {verdict.name}: {verdict.not_offered}", highlight=False)
        if verdict.locked:
            left_out = f"{verdict.locked} trials left out: the frozen process held the lock of the SQLite file"
            console.print(f"{system}, {verdict.name}: {left_out}", highlight=False)
        for kill in verdict.broken[:SHOWN_KILLS]:
            console.print(f"{system}, {verdict.name}: {kill}", highlight=False, soft_wrap=True)
        if len(verdict.broken) > SHOWN_KILLS:
            console.print(f"  … and at {len(verdict.broken) - SHOWN_KILLS} more trials", highlight=False)
