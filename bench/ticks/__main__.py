"""`python -m bench.ticks`, a part of `make bench-scale`: a tick with 1,000 schedules, and with 1,000,000.

Both databases are there at the same time, and rounds of ticks alternate between them, so that whatever disturbs hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from statistics import median

import asyncpg
import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.machine import describe_machine
from bench.million import postgres, sqlite
from bench.places import durable_cluster, fresh_folder
from bench.ticks.copies import FEW, check_copies, load
from bench.ticks.filling import add_due
from bench.ticks.ticking import Ticker
from cortex_plane import Plane

MANY = 1_000_000
ROUNDS = 10
DUE = 300
TARGET = 1.2
SAMPLE = "schedule-0500-original"

Readings = dict[int, list[list[float]]]
"""By the number of schedules, round by round: the milliseconds of each tick."""

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    measured: dict[str, Readings] = {}
    for store, places in PLACES.items():
        if arguments.store in (None, store):
            with places((FEW, arguments.schedules)) as urls:
                measured[store] = asyncio.run(_measure(store, urls))
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


async def _measure(store: str, urls: dict[int, str]) -> Readings:
    """The first round of each warms it up, and does not count."""
    readings: Readings = {schedules: [] for schedules in urls}
    async with AsyncExitStack() as stack:
        planes = {schedules: await stack.enter_async_context(Plane(url)) for schedules, url in urls.items()}
        tickers = {schedules: await Ticker.of(plane) for schedules, plane in planes.items()}
        for number in range(ROUNDS + 1):
            for schedules, plane in planes.items():
                await add_due(plane, DUE)
                milliseconds = [1000 * seconds for seconds in await tickers[schedules].ticks(DUE)]
                if number:
                    readings[schedules].append(milliseconds)
                    p99 = f"{_percentile(milliseconds, 99):.1f} ms"
                    progress.print(f"{store}, round {number} of {ROUNDS}, {schedules:,}: p99 {p99}", highlight=False)
    return readings


@contextmanager
def _postgres_places(sizes: tuple[int, ...]) -> Iterator[dict[int, str]]:
    with durable_cluster(autovacuum="off") as cluster:
        urls = {schedules: cluster.create_database(f"schedules_{schedules}") for schedules in sizes}
        for schedules, url in urls.items():
            with _filling("postgres", schedules) as advance:
                postgres.fill(load(schedules), url, advance)
            asyncio.run(_vacuum(url))
        asyncio.run(check_copies(urls[max(sizes)], SAMPLE))
        os.sync()
        yield urls


async def _vacuum(url: str) -> None:
    """As autovacuum would have done by and by, and not in the middle of a round."""
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum (analyze)")
    await connection.execute("checkpoint")
    await connection.close()


@contextmanager
def _sqlite_places(sizes: tuple[int, ...]) -> Iterator[dict[int, str]]:
    with fresh_folder() as folder:
        urls = {schedules: f"sqlite:///{folder}/schedules_{schedules}.db" for schedules in sizes}
        for schedules in sizes:
            with _filling("sqlite", schedules) as advance:
                sqlite.fill(load(schedules), folder / f"schedules_{schedules}.db", advance)
        asyncio.run(check_copies(urls[max(sizes)], SAMPLE))
        os.sync()
        yield urls


PLACES = {"sqlite": _sqlite_places, "postgres": _postgres_places}


@contextmanager
def _filling(store: str, schedules: int) -> Iterator[Callable[[], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=progress) as bar:
        task = bar.add_task(f"{store}: storing {schedules:,} schedules", total=max(schedules // FEW - 1, 1))
        yield lambda: bar.advance(task)


def _show(measured: dict[str, Readings], ratios: dict[str, float]) -> None:
    table = Table(title=f"{ROUNDS} rounds of {DUE} ticks, in ms: the round in the middle, and the range", title_justify="left")
    for title in ("", "schedules", "median", "p99"):
        table.add_column(title, justify="right")
    for store, readings in measured.items():
        for schedules, rounds in readings.items():
            table.add_row(store, f"{schedules:,}", _cell(rounds, 50), _cell(rounds, 99))
    console = Console()
    console.print(table)
    for store, ratio in ratios.items():
        verdict = "[green]ok" if ratio <= TARGET else "[red]MISSED"
        console.print(f"p99 of a tick, {store}: {ratio:.2f} x that with {FEW:,} (target {TARGET}) {verdict}", highlight=False)


def _cell(rounds: list[list[float]], percent: int) -> str:
    found = [_percentile(one, percent) for one in rounds]
    return f"{median(found):.1f} ({min(found):.1f} to {max(found):.1f})"


def _p99(rounds: list[list[float]]) -> float:
    """One disturbed round must not decide."""
    return median(_percentile(one, 99) for one in rounds)


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


if __name__ == "__main__":
    sys.exit(main())
