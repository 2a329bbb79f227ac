"""`make bench-scale`: the same drain on empty tables, and right after a million jobs were put into them.

Nothing is analyzed or vacuumed in between: a store that needs its statistics first would be slow here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.machine import describe_machine
from bench.million import postgres, sqlite
from bench.million.originals import ALL_FINISHED, ALL_LATER, COPIES, FINISHED_AND_LATER, check_copy, prepare
from bench.order import Order
from bench.places import durable_cluster, fresh_database, fresh_folder
from bench.processes import run_driver
from bench.readings import Readings
from cortex_plane.testing import PostgresCluster

JOBS = 30_000
TARGET = 0.8
EMPTY, FULL = "empty", "full"

Place = Callable[[str], AbstractContextManager[str]]

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    readings = Readings()
    stores = []
    if arguments.store in (None, "sqlite"):
        with _sqlite_places() as place:
            _run_rounds(readings, "SQLite", place, arguments.rounds)
        stores.append("SQLite")
    if arguments.store in (None, "postgres"):
        with _postgres_places() as place:
            _run_rounds(readings, "PostgreSQL", place, arguments.rounds)
        stores.append("PostgreSQL")
    ratios = {store: readings.ratio(store, "drain", FULL, EMPTY) for store in stores}
    if arguments.json:
        print(json.dumps({"readings": readings.as_json(), "ratios": ratios, "target": TARGET}, indent=2))
    else:
        _show(readings, ratios)
    return 1 if arguments.assert_ and min(ratios.values()) < TARGET else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description="Drains on empty and on very full tables.")
    parser.add_argument("--rounds", type=int, default=5, help="of each, one after the other (default: 5)")
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this one")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help=f"exit 1 when a ratio is below {TARGET}")
    return parser.parse_args()


def _run_rounds(readings: Readings, store: str, place: Place, rounds: int) -> None:
    for number in range(1, rounds + 1):
        for state in (EMPTY, FULL):
            with progress.status(f"{store}, round {number} of {rounds}, {state} tables …"), place(state) as database:
                measured = run_driver("cortex", _order(database, state))
            for measure, value in measured.items():
                readings.add(store, state, measure, value)
            progress.print(
                f"{store}, round {number} of {rounds}, {state} tables: {measured['drain']:,.0f} jobs/s drained", highlight=False
            )


def _order(database: str, state: str) -> Order:
    finished, later = (ALL_FINISHED, ALL_LATER) if state == FULL else (0, 0)
    return Order(database, JOBS, singles=0, finished_before=finished, later_before=later, settle=False)


@contextmanager
def _postgres_places() -> Iterator[Place]:
    with durable_cluster(autovacuum="off") as cluster:
        asyncio.run(prepare(cluster.create_database(EMPTY)))
        full = cluster.create_database(FULL)
        with _filling("PostgreSQL") as advance:
            copied = postgres.fill(FINISHED_AND_LATER, full, advance)
        check_copy(full, copied)
        yield lambda state: _synced_database(cluster, state)


@contextmanager
def _synced_database(cluster: PostgresCluster, state: str) -> Iterator[str]:
    with fresh_database(cluster, template=state) as url:
        os.sync()
        yield url


@contextmanager
def _sqlite_places() -> Iterator[Place]:
    with fresh_folder() as folder:
        asyncio.run(prepare(f"sqlite:///{folder}/{EMPTY}"))
        with _filling("SQLite") as advance:
            copied = sqlite.fill(FINISHED_AND_LATER, folder / FULL, advance)
        check_copy(f"sqlite:///{folder}/{FULL}", copied)
        yield lambda state: _copied_file(folder / state)


@contextmanager
def _copied_file(original: Path) -> Iterator[str]:
    with fresh_folder() as folder:
        shutil.copyfile(original, folder / "bench.db")
        os.sync()  # Or the first sync of the worker would wait for this copy.
        yield f"sqlite:///{folder}/bench.db"


@contextmanager
def _filling(store: str) -> Iterator[Callable[[], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=progress) as bar:
        task = bar.add_task(f"{store}: storing {ALL_FINISHED:,} finished and {ALL_LATER:,} later jobs", total=COPIES)
        yield lambda: bar.advance(task)


def _show(readings: Readings, ratios: dict[str, float]) -> None:
    table = Table(title=f"{JOBS:,} jobs, jobs/s: the median round and the range", title_justify="left")
    table.add_column("")
    for title in ("empty tables", f"with {ALL_FINISHED:,} finished\nand {ALL_LATER:,} later jobs", "ratio"):
        table.add_column(title, justify="right")
    for store in ratios:
        for measure, title in (("drain", "drain"), ("submit_batch", "submit in batches of 1,000")):
            cells = (_cell(readings.all(store, state, measure)) for state in (EMPTY, FULL))
            table.add_row(f"{store}: {title}", *cells, f"{readings.ratio(store, measure, FULL, EMPTY):.2f}")
    console = Console()
    console.print(table)
    for store, ratio in ratios.items():
        verdict = "[green]ok" if ratio >= TARGET else "[red]MISSED"
        console.print(f"drain on full tables, {store}: {ratio:.2f} x empty (target {TARGET}) {verdict}", highlight=False)


def _cell(values: list[float]) -> str:
    return f"{median(values):,.0f}\n[dim]{min(values):,.0f} to {max(values):,.0f}"


if __name__ == "__main__":
    sys.exit(main())
