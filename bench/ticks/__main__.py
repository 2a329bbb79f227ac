"""`python -m bench.ticks`, a part of `make bench-scale`: a tick with 1,000 schedules, and with 1,000,000."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.machine import describe_machine
from bench.places import durable_cluster, fresh_database, fresh_folder
from bench.ticks.filling import fill
from bench.ticks.ticking import ticks
from cortex_plane import Plane

FEW, MANY = 1_000, 1_000_000
ROUNDS = 3
DUE = 300
WARM_UP = 50
TARGET = 1.2

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    measured: dict[str, dict[int, list[float]]] = {}
    for store in ["sqlite", "postgres"] if arguments.store is None else [arguments.store]:
        measured[store] = {}
        for schedules in (FEW, arguments.schedules):
            with _place(store) as url:
                measured[store][schedules] = asyncio.run(_measure(url, store, schedules))
    ratios = {store: _p99(readings[arguments.schedules]) / _p99(readings[FEW]) for store, readings in measured.items()}
    if arguments.json:
        print(json.dumps({"milliseconds": measured, "ratios": ratios, "target": TARGET}))
    else:
        _show(measured, ratios)
    return 1 if arguments.assert_ and max(ratios.values()) > TARGET else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ticks", description="Ticks with few and with very many schedules.")
    parser.add_argument("--schedules", type=int, default=MANY, help=f"how many are very many (default: {MANY:,})")
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this one")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help=f"exit 1 when a ratio is above {TARGET}")
    return parser.parse_args()


async def _measure(url: str, store: str, schedules: int) -> list[float]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    async with Plane(url) as plane:
        with Progress(*columns, console=progress) as bar:
            task = bar.add_task(f"{store}: storing {schedules:,} schedules", total=schedules)
            await fill(plane, schedules, ROUNDS * DUE + WARM_UP, lambda stored: bar.advance(task, stored))
        seconds = await ticks(plane, ROUNDS * DUE + WARM_UP)
    return [1000 * one for one in seconds[WARM_UP:]]


@contextmanager
def _place(store: str) -> Iterator[str]:
    if store == "sqlite":
        with fresh_folder() as folder:
            yield f"sqlite:///{folder}/bench.db"
    else:
        with durable_cluster() as cluster, fresh_database(cluster) as url:
            yield url


def _show(measured: dict[str, dict[int, list[float]]], ratios: dict[str, float]) -> None:
    table = Table(title=f"{ROUNDS} rounds of {DUE} ticks, in ms", title_justify="left")
    for title in ("", "schedules", "median", "p99"):
        table.add_column(title, justify="right")
    for store, readings in measured.items():
        for schedules, values in readings.items():
            table.add_row(store, f"{schedules:,}", f"{_percentile(values, 50):.1f}", f"{_p99(values):.1f}")
    console = Console()
    console.print(table)
    for store, ratio in ratios.items():
        verdict = "[green]ok" if ratio <= TARGET else "[red]MISSED"
        console.print(f"p99 of a tick, {store}: {ratio:.2f} x that with {FEW:,} (target {TARGET}) {verdict}", highlight=False)


def _p99(values: list[float]) -> float:
    """One disturbed round must not decide."""
    return median(_percentile(values[first : first + DUE], 99) for first in range(0, len(values), DUE))


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


if __name__ == "__main__":
    sys.exit(main())
