"""`python -m bench.upkeep`, a part of `make bench-scale`: whether sealing and retention keep up with a drain.

A database with as many finished jobs as will be drained, all of which may be deleted. One worker drains, seals the audit log and
deletes jobs, as every worker does. Compared are the rates of the second half of the drain, when the worker has noticed that it is
behind. Each completed and each deleted job is an entry of the audit log. On PostgreSQL it also shows how many updates of `job`
and `job_run` wrote no index (HOT).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import NamedTuple

import structlog
from rich.console import Console
from rich.table import Table

from bench.drivers.cortex_database import Database, open_database
from bench.machine import describe_machine
from bench.million import postgres, sqlite
from bench.million.columns import earlier
from bench.million.load import Load
from bench.million.originals import FINISHED, run_originals
from bench.places import durable_cluster, fresh_database, fresh_folder
from cortex_plane import Context, Plane
from cortex_plane.event_loop import run
from cortex_plane.testing import PostgresCluster

JOBS = 60_000
ROUNDS = 3
CONCURRENCY = 1_000
KEEP_SECONDS = 1.0
LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 240.0
TARGET = 1.0
HOT_TARGETS = {"HOT updates of job_run": 0.9, "HOT updates of job": 0.8}
TABLES = ("job", "job_run", "job_history", "queue_entry")

LEFT = """select (select count(*) from cortex.queue_entry where state = 'ready')
  + (select count(*) from cortex.job_run where status = 'RUNNING')"""
SEALED = "select coalesce(sum(entries), 0) from cortex.audit_seal"
RECORDED = "select coalesce(max(seq), 0) from cortex.audit_log"
DELETED = "select count(*) from cortex.audit_log where action = 'JOB_DELETED'"
HOT = "select coalesce(1000 * n_tup_hot_upd / nullif(n_tup_upd, 0), 0) from pg_stat_user_tables where relname = '{}'"

progress = Console(stderr=True)


class Look(NamedTuple):
    seconds: float
    left: int
    sealed: int
    recorded: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Rates of the second half of a drain, each second."""

    store: str
    drained: float
    sealed: float
    deleted: float
    unsealed: int
    """Entries that were not sealed when the drain was over."""
    hot: dict[str, float]


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    stores = [store for store in ("SQLite", "PostgreSQL") if arguments.store in (None, store)]
    readings: list[Reading] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(durable_cluster()) if "PostgreSQL" in stores else None
        for number in range(1, arguments.rounds + 1):
            for store in stores:
                with _filled(store, cluster, arguments.jobs) as url:
                    one = run(_measure(store, url, arguments.jobs))
                readings.append(one)
                rates = f"{one.drained:,.0f} drained, {one.sealed:,.0f} sealed, {one.deleted:,.0f} deleted each second"
                progress.print(f"{store}, round {number} of {arguments.rounds}: {rates}", highlight=False)
    ratios = {store: _ratios([one for one in readings if one.store == store]) for store in stores}
    missed = [f"{name}, {store}" for store, found in ratios.items() for name, value in found.items() if value < _target(name)]
    if arguments.json:
        print(json.dumps({"readings": [asdict(one) for one in readings], "ratios": ratios, "missed": missed}, indent=2))
    else:
        _show(readings, ratios, missed)
    return 1 if arguments.assert_ and missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.upkeep", description="Sealing and retention beside a drain.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each store, in turns (default: {ROUNDS})")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"that are drained, and that may be deleted (default: {JOBS:,})")
    parser.add_argument("--store", choices=("SQLite", "PostgreSQL"), help="only this one")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


@contextmanager
def _filled(store: str, cluster: PostgresCluster | None, jobs: int) -> Iterator[str]:
    load = Load(run_originals, TABLES, jobs // FINISHED - 1, earlier)
    if cluster is not None and store == "PostgreSQL":
        with fresh_database(cluster) as url:
            postgres.fill(load, url, lambda: None)
            yield url
    else:
        with fresh_folder() as folder:
            sqlite.fill(load, folder / "bench.db", lambda: None)
            yield f"sqlite:///{folder}/bench.db"


async def _measure(store: str, url: str, jobs: int) -> Reading:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    database, plane = open_database(url), Plane(url)

    @plane.agent("noop")
    async def noop(ctx: Context, at: float) -> None: ...

    await database.open()
    async with plane:
        await plane.store.queue.recount()  # The copies came past the triggers.
        for _ in range(jobs // 1_000):
            await plane.submit_many([noop.submission(at=0.0)] * 1_000)
        await plane.retention.add(KEEP_SECONDS)
        await database.settle()
        worker = asyncio.create_task(plane.run_worker(concurrency=CONCURRENCY))
        looks = [look async for look in _looks(database)]
        plane.stop_workers()
        await worker
    hot = {table: await database.count(HOT.format(table)) / 1_000 for table in ("job", "job_run") if store == "PostgreSQL"}
    await database.close()
    return _reading(store, looks, hot)


async def _looks(database: Database) -> AsyncIterator[Look]:
    began = perf_counter()
    while (seconds := perf_counter() - began) < PATIENCE_SECONDS:
        counts = [await database.count(sql) for sql in (LEFT, SEALED, RECORDED, DELETED)]
        yield Look(seconds, *counts)
        if counts[0] == 0:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise SystemExit(f"{counts[0]} jobs were not drained in {PATIENCE_SECONDS:.0f} s. This measurement is void.")


def _reading(store: str, looks: list[Look], hot: dict[str, float]) -> Reading:
    last = looks[-1]
    half = next(look for look in looks if look.left <= looks[0].left / 2)
    seconds = last.seconds - half.seconds
    drained, sealed, deleted = half.left / seconds, (last.sealed - half.sealed) / seconds, (last.deleted - half.deleted) / seconds
    return Reading(store, drained, sealed, deleted, last.recorded - last.sealed, hot)


def _ratios(readings: list[Reading]) -> dict[str, float]:
    ratios = {
        "sealed / drained": median(one.sealed / one.drained for one in readings),
        "deleted / drained": median(one.deleted / one.drained for one in readings),
    }
    return ratios | {f"HOT updates of {table}": min(one.hot[table] for one in readings) for table in readings[0].hot}


def _target(ratio: str) -> float:
    return HOT_TARGETS.get(ratio, TARGET)


def _show(readings: list[Reading], ratios: dict[str, dict[str, float]], missed: list[str]) -> None:
    table = Table(title="beside a drain, each second: the median round and the range", title_justify="left")
    for heading in ("", "drained", "sealed", "deleted", "not sealed at the end"):
        table.add_column(heading, justify="right" if heading else "left")
    for store in ratios:
        mine = [one for one in readings if one.store == store]
        kinds = ([one.drained for one in mine], [one.sealed for one in mine], [one.deleted for one in mine])
        table.add_row(store, *map(_cell, kinds), _cell([one.unsealed for one in mine]))
    console = Console()
    console.print(table)
    for store, found in ratios.items():
        for name, value in found.items():
            verdict = "[red]MISSED" if f"{name}, {store}" in missed else "[green]ok"
            console.print(f"{name}, {store}: {value:.2f} (at least {_target(name)}) {verdict}", highlight=False)


def _cell(values: list[float] | list[int]) -> str:
    return f"{median(values):,.0f}\n[dim]{min(values):,.0f} to {max(values):,.0f}"


if __name__ == "__main__":
    sys.exit(main())
