"""The second part of `make bench-scale`: every list of the API and every page, with a million jobs in the database.

Nothing is analyzed or vacuumed after the load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import perf_counter

from httpx import ASGITransport, AsyncClient
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.machine import describe_machine
from bench.million import postgres, sqlite
from bench.pages.addresses import addresses
from bench.pages.known import get_to_know
from bench.pages.originals import COPIES, MIXTURE, ORIGINALS, PERSON, add_schedules
from bench.places import durable_cluster, fresh_database, fresh_folder
from cortex_plane import Plane
from cortex_plane.dashboard.app import create_dashboard
from cortex_plane.http.auth import COOKIE
from cortex_plane.people.login import open_sign_in

STORES = ("PostgreSQL", "SQLite")
LIMIT_MILLISECONDS = 200.0
TIMES = 7
WIDTH = 128

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    answers = {store: _measure(store, arguments.copies) for store in STORES if arguments.store in (None, store)}
    if arguments.json:
        print(json.dumps({store: [asdict(one) for one in measured] for store, measured in answers.items()}, indent=2))
    else:
        for store, measured in answers.items():
            _show(store, measured, (arguments.copies + 1) * ORIGINALS)
    return 1 if arguments.assert_ and not all(one.ok for one in answers.get("PostgreSQL", [])) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description="Lists and pages with a million jobs.")
    parser.add_argument("--store", choices=STORES, help="only this one")
    parser.add_argument("--copies", type=int, default=COPIES, help=f"of {ORIGINALS:,} jobs (default: {COPIES})")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help="exit 1 when PostgreSQL needs longer for one")
    return parser.parse_args()


@dataclass(frozen=True, slots=True)
class Answered:
    name: str
    status: int
    milliseconds: list[float]

    @property
    def ok(self) -> bool:
        return self.status < 400 and max(self.milliseconds) < LIMIT_MILLISECONDS


def _measure(store: str, copies: int) -> list[Answered]:
    load = replace(MIXTURE, copies=copies)
    if store == "PostgreSQL":
        with durable_cluster(autovacuum="off") as cluster, fresh_database(cluster) as url:
            with _filling(store, copies) as advance:
                postgres.fill(load, url, advance)
            return asyncio.run(_ask(store, url, copies))
    with fresh_folder() as folder:
        with _filling(store, copies) as advance:
            sqlite.fill(load, folder / "bench.db", advance)
        return asyncio.run(_ask(store, f"sqlite:///{folder}/bench.db", copies))


@contextmanager
def _filling(store: str, copies: int) -> Iterator[Callable[[], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=progress) as bar:
        task = bar.add_task(f"{store}: storing {(copies + 1) * ORIGINALS:,} jobs of all states", total=copies)
        yield lambda: bar.advance(task)


async def _ask(store: str, url: str, copies: int) -> list[Answered]:
    """Each address several times, one after the other: none has the luck of a warm cache that another warmed just before."""
    plane = Plane(url)
    app = create_dashboard(plane)
    async with plane:
        await plane.store.queue.recount()  # The copies came past the triggers.
        await add_schedules(plane)
        signed_in = await open_sign_in(plane.store, await plane.access.user(PERSON))
        transport = ASGITransport(app, raise_app_exceptions=False)
        async with AsyncClient(transport=transport, base_url="http://localhost", cookies={COOKIE: signed_in.token}) as client:
            wanted = list(addresses(app, await get_to_know(plane, copies)))
            seen: dict[str, Answered] = {name: Answered(name, 0, []) for name, _ in wanted}
            for number in range(1, TIMES + 1):
                progress.print(f"{store}: round {number} of {TIMES} of {len(wanted)} addresses", highlight=False)
                for name, address in wanted:
                    began = perf_counter()
                    answer = await client.get(address)
                    seen[name].milliseconds.append(1000 * (perf_counter() - began))
                    seen[name] = replace(seen[name], status=max(seen[name].status, answer.status_code))
    return list(seen.values())


def _show(store: str, answers: list[Answered], jobs: int) -> None:
    table = Table(title=f"{store}, {jobs:,} jobs: {TIMES} times each, in ms", title_justify="left")
    table.add_column("address", overflow="fold")
    for title in ("p50", "max", ""):
        table.add_column(title, justify="right")
    for one in answers:
        verdict = "[green]ok" if one.ok else "[red]MISSED" if one.status < 400 else f"[red]answers {one.status}"
        table.add_row(one.name, f"{median(one.milliseconds):.0f}", f"{max(one.milliseconds):.0f}", verdict)
    console = Console(width=WIDTH)
    console.print(table)
    missed = sum(not one.ok for one in answers)
    verdict = "[green]ok" if not missed else f"[red]{missed} MISSED"
    console.print(
        f"{store}: {len(answers)} addresses, each within {LIMIT_MILLISECONDS:.0f} ms with {jobs:,} jobs {verdict}",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
