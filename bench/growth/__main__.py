"""`python -m bench.growth`: what each operation costs on a full database, as a ratio to a nearly empty one.

The full one has 1,000,000 finished, 200,000 delayed and 50,000 waiting jobs in 100 queues of 50 agents and 200 tenants; the small
one has a thousandth of that: enough that a page is full in both, or the ratio would show how much is listed. For the same reason
both have some thousand jobs more: of the last hour, which the overview shows, and waiting ones, which are claimed and moved. Each
is asked right after the load, when the statistics of the tables are missing, and again after ANALYZE.

The two databases take turns, so each pair of readings is a ratio. The clock judges when three quarters of these ratios are on the
same side of the limit. Where they are not, more pairs are read; if that does not help, the clock is too noisy and rows read
judge. Pages read are shown beside them: the trees over a thousand times as many rows have one or two levels more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median, quantiles
from typing import Any, NamedTuple

import apsw
import asyncpg
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.growth.operations import Operation, operations
from bench.growth.originals import ALL, add_fresh, load_of
from bench.machine import describe_machine
from bench.million import postgres, sqlite
from bench.places import durable_cluster, fresh_folder
from cortex_plane import Plane

COPIES, SMALL = 999, 0
LIMIT = 1.5
TRIES = 4
STATISTICS = ("stale", "fresh")
FLUSH_SECONDS = 1.2
"""PostgreSQL tells what a session has read once a second at most."""

progress = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Cost:
    """`rows` are steps of SQLite's virtual machine there, of which each row read takes a few."""

    milliseconds: list[float]
    pages: float
    rows: float

    def with_more(self, other: Cost) -> Cost:
        return replace(self, milliseconds=[*self.milliseconds, *other.milliseconds])


@dataclass(frozen=True, slots=True)
class Result:
    store: str
    statistics: str
    operation: str
    small: Cost
    full: Cost

    @property
    def by_clock(self) -> list[float]:
        """The lower quartile, the median and the upper quartile."""
        pairs = zip(self.full.milliseconds, self.small.milliseconds, strict=True)
        return quantiles([full / small for full, small in pairs], n=4)

    @property
    def by_pages(self) -> float:
        return self.full.pages / max(self.small.pages, 1.0)

    @property
    def by_rows(self) -> float:
        return self.full.rows / max(self.small.rows, 1.0)

    @property
    def judge(self) -> str:
        lower, _, upper = self.by_clock
        return "rows" if lower <= LIMIT < upper else "clock"

    @property
    def ok(self) -> bool:
        return self.by_clock[1] <= LIMIT if self.judge == "clock" else self.by_rows <= LIMIT


class Work(NamedTuple):
    pages: int
    rows: int


class Reader:
    """Counts the pages and rows that the sessions of a database have read, from memory or from disk."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def work(self) -> Work:
        store: Any = self._plane.store
        if self._plane.settings.database_url.startswith("sqlite"):
            database = store.database.session
            connections = [database._writer._connection, *database._reading]
            kinds = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)
            pages = sum(_status(connection, kind) for connection in connections if connection for kind in kinds)
            return Work(pages, STEPS[str(database.path)])
        await asyncio.sleep(FLUSH_SECONDS)
        await store.workers.now()  # By the session that is kept at hand; each tells what it has read at its next statement.
        pool = store.database.session._pool
        idle = [await pool.acquire() for _ in range(pool.get_idle_size())]
        for session in idle:
            await session.execute("select 1")
            await pool.release(session)
        connection = await asyncpg.connect(store.database.session.url)
        try:
            [row] = await connection.fetch(WORK)
            return Work(int(row[0]), int(row[1]))
        finally:
            await connection.close()


WORK = """
select
  (select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)) from pg_statio_user_tables),
  (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables)
"""
"""Of the tables of the product: what sessions read of the catalog when they are opened is of no operation."""

STEPS: Counter[str] = Counter()
"""Steps of SQLite's virtual machine, by file."""


def _status(connection: apsw.Connection, kind: int) -> int:
    while True:
        try:
            return connection.status(kind)[0]
        except apsw.ThreadingViolationError:  # The duties of its own thread, for a moment.
            time.sleep(0.001)


def _count_steps(connection: apsw.Connection) -> None:
    file = connection.filename

    def add(event: dict[str, Any]) -> None:
        STEPS[file] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, add)


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    apsw.connection_hooks.append(_count_steps)
    results: list[Result] = []
    if arguments.store in (None, "sqlite"):
        results += _measure_sqlite(arguments.copies)
    if arguments.store in (None, "postgres"):
        results += _measure_postgres(arguments.copies)
    if arguments.json:
        names = ("by_clock", "by_pages", "by_rows", "judge", "ok")
        print(json.dumps([{**asdict(one), **{name: getattr(one, name) for name in names}} for one in results], indent=2))
    else:
        _show(results, arguments.copies)
    return 1 if arguments.assert_ and not all(one.ok for one in results) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description="What operations cost as tables grow.")
    parser.add_argument(
        "--copies", type=int, default=COPIES, help=f"of 1,000 finished, 200 delayed and 50 waiting jobs (default: {COPIES})"
    )
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="only this one")
    parser.add_argument("--json", action="store_true", help="every figure, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help=f"exit 1 when a ratio is above {LIMIT}")
    return parser.parse_args()


def _measure_sqlite(copies: int) -> list[Result]:
    with fresh_folder() as folder:
        for name, count in (("small", SMALL), ("full", copies)):
            with _filling(f"SQLite, {name}", count) as advance:
                sqlite.fill(load_of(count), folder / name, advance)
        urls = {name: f"sqlite:///{folder}/{name}" for name in ("small", "full")}
        return asyncio.run(_compare("SQLite", urls))


def _measure_postgres(copies: int) -> list[Result]:
    with durable_cluster(autovacuum="off") as cluster:
        urls = {name: cluster.create_database(name) for name in ("small", "full")}
        for name, count in (("small", SMALL), ("full", copies)):
            with _filling(f"PostgreSQL, {name}", count) as advance:
                postgres.fill(load_of(count), urls[name], advance)
        return asyncio.run(_compare("PostgreSQL", urls))


@contextmanager
def _filling(what: str, copies: int) -> Iterator[Callable[[], object]]:
    with Progress(console=progress) as bar:
        task = bar.add_task(f"{what}: {ALL * (copies + 1):,} jobs", total=copies)
        yield lambda: bar.advance(task)


async def _compare(store: str, urls: dict[str, str]) -> list[Result]:
    results: list[Result] = []
    for url in urls.values():
        async with Plane(url) as plane:
            await plane.store.queue.recount()  # The copies came past the triggers.
        await add_fresh(url)
    for statistics in STATISTICS:
        if statistics == "fresh":
            for url in urls.values():
                await _analyze(url)
        async with Plane(urls["small"]) as small, Plane(urls["full"]) as full:
            readers = Reader(small), Reader(full)
            pairs = zip(await operations(small), await operations(full), strict=True)
            for pair in pairs:
                one = Result(store, statistics, pair[0].name, *await _costs(pair, readers))
                for _ in range(TRIES - 1):
                    if one.judge == "clock" or not pair[0].repeatable:
                        break
                    again = await _costs(pair, readers)
                    one = replace(one, small=one.small.with_more(again[0]), full=one.full.with_more(again[1]))
                results.append(one)
                figures = f"{one.by_clock[1]:.2f} by clock, {one.by_pages:.2f} by pages, {one.by_rows:.2f} by rows"
                progress.print(f"{store}, {statistics}, {one.operation}: {figures}", highlight=False)
    return results


async def _costs(pair: tuple[Operation, Operation], readers: tuple[Reader, Reader]) -> tuple[Cost, Cost]:
    """The two take turns, so that whatever disturbs the machine disturbs both."""
    times: tuple[list[float], list[float]] = ([], [])
    for operation in pair:
        await operation.work()  # What is planned or read from disk for the first time.
    before = [await reader.work() for reader in readers]
    for _ in range(pair[0].times):
        for operation, taken in zip(pair, times, strict=True):
            began = time.perf_counter()
            await operation.work()
            taken.append(1_000 * (time.perf_counter() - began))
    after = [await reader.work() for reader in readers]
    small, full = (
        Cost(taken, (now.pages - was.pages) / len(taken), (now.rows - was.rows) / len(taken))
        for taken, was, now in zip(times, before, after, strict=True)
    )
    return small, full


async def _analyze(url: str) -> None:
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("analyze")
        connection.close()
        return
    session = await asyncpg.connect(url)
    await session.execute("analyze")
    await session.close()


def _show(results: list[Result], copies: int) -> None:
    console = Console(width=140)
    for store in dict.fromkeys(one.store for one in results):
        title = f"{store}: {ALL * (copies + 1):,} jobs against {ALL * (SMALL + 1):,}; ratios by clock, by pages and by rows read"
        table = Table(title=title, title_justify="left")
        headings = (
            "operation",
            "statistics",
            "ms small",
            "ms full",
            "by clock",
            "half of them",
            "by pages",
            "by rows",
            "judged by",
            "",
        )
        for heading in headings:
            table.add_column(heading, justify="left" if heading in ("operation", "statistics", "judged by") else "right")
        for one in (one for one in results if one.store == store):
            lower, middle, upper = one.by_clock
            ratios = (f"{middle:.2f}", f"{lower:.2f} to {upper:.2f}", f"{one.by_pages:.2f}", f"{one.by_rows:.2f}")
            times = (f"{median(cost.milliseconds):.2f}" for cost in (one.small, one.full))
            table.add_row(one.operation, one.statistics, *times, *ratios, one.judge, "[green]ok" if one.ok else "[red]MISSED")
        console.print(table)
    missed = [f"{one.operation} ({one.store}, {one.statistics})" for one in results if not one.ok]
    verdict = "[green]ok" if not missed else f"[red]MISSED: {', '.join(missed)}"
    console.print(f"each operation at most {LIMIT} times what it costs on a nearly empty database: {verdict}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
