"""The figures as a table: one row each, with the goal where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.house.figures import Figures
from tools.house.life import Life

Measured = tuple[Figures, Life | None]

MISSED, MET = "missed", "met"


@dataclass(frozen=True)
class Row:
    title: str
    present: float | None
    before: float | None = None
    goal: float | None = None
    """The largest value that is good enough."""
    percent: bool = False

    @property
    def met(self) -> bool | None:
        """None where there is no goal. A figure that could not be measured meets none."""
        if self.goal is None:
            return None
        return self.present is not None and self.present <= self.goal

    def shown(self, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:.1%}" if self.percent else f"{value:,.10g}"


def rows(present: Measured, before: Measured | None = None) -> list[Row]:
    earlier = list(_rows(before)) if before else None
    now = list(_rows(present))
    if earlier is None:
        return now
    return [Row(row.title, row.present, old.present, row.goal, row.percent) for row, old in zip(now, earlier, strict=True)]


def _rows(measured: Measured) -> Iterator[Row]:
    figures, life = measured
    yield Row("Python files in src", figures.python_files, goal=230)
    yield Row("Lines of Python", figures.lines, goal=48_000)
    yield Row("SQL files in src", figures.sql_files, goal=40)
    yield Row("Share of import lines", figures.import_share, goal=0.06, percent=True)
    yield Row("Median function, lines", figures.median_function)
    yield Row("Share of docstring lines", figures.docstring_share, percent=True)
    yield Row("Modules under 40 lines with one importer", len(figures.small_modules))
    yield Row("Class names defined more than once", len(figures.repeated_classes))
    yield Row("Protocols with one implementation", len(figures.single_protocols))
    for name, files in figures.field_files.items():
        yield Row(f"Files that name {name}", files, goal=6)
    yield Row("Files crossed by a job's life", len(life.files) if life else None, goal=45)
    yield Row("Functions called in a job's life", life.functions if life else None)


def draw(table: Sequence[Row], commit: str | None) -> str:
    """Without a commit to compare with, its column is left out."""
    cells = [["", *([commit] if commit else []), "present", "goal", ""]]
    for row in table:
        goal = "" if row.goal is None else f"≤ {row.shown(row.goal)}"
        verdict = {True: MET, False: MISSED, None: ""}[row.met]
        cells.append([row.title, *([row.shown(row.before)] if commit else []), row.shown(row.present), goal, verdict])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_line(line, widths) for line in cells)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    title, *rest = (
        cell.ljust(width) if place in {0, len(cells) - 1} else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([title, *rest]).rstrip()
