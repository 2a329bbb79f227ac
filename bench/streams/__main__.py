"""`python -m bench.streams`, a part of `make bench-scale`: the same drain with and without a hundred open event streams.

worker ──▶ database ◀── API server ◀── listeners, each a process of its own

Half of the streams follow a job each, of those that are not due yet; half follow lists, of ten kinds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic, sleep

from rich.console import Console
from rich.table import Table

from bench.machine import describe_machine
from bench.order import Order
from bench.places import durable_cluster, fresh_database, fresh_folder
from bench.processes import run_driver
from bench.readings import Readings
from bench.systems import ROOT
from cortex_plane import Context, Plane
from cortex_plane.testing import PostgresCluster

JOBS = 30_000
STREAMS = 100
ROUNDS = 5
TARGET = 0.95
A_DAY = 86_400.0
PATIENCE_SECONDS = 30.0
ALONE, WATCHED = "alone", "watched"

LISTS = (
    "",
    "?status=PENDING",
    "?status=RUNNING",
    "?status=COMPLETED",
    "?status=FAILED",
    "?agent=noop",
    "?queue=default",
    "?tag=invoice",
    "?text=customer",
    "?limit=200",
)

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    describe_machine(progress)
    readings = Readings()
    stores = [store for store in ("SQLite", "PostgreSQL") if arguments.store in (None, store)]
    with ExitStack() as stack:
        cluster = stack.enter_context(durable_cluster()) if "PostgreSQL" in stores else None
        for store in stores:
            for number in range(1, arguments.rounds + 1):
                for state in (ALONE, WATCHED):
                    with _database(store, cluster) as url, _watched(url, arguments.streams, are_open=state == WATCHED):
                        measured = run_driver("cortex", Order(url, arguments.jobs, singles=0, later_before=arguments.streams))
                    readings.add(store, state, "drain", measured["drain"])
                    said = f"{store}, round {number} of {arguments.rounds}, {state}: {measured['drain']:,.0f} jobs/s"
                    progress.print(said, highlight=False)
    ratios = {store: readings.ratio(store, "drain", WATCHED, ALONE) for store in stores}
    if arguments.json:
        print(json.dumps({"readings": readings.as_json(), "ratios": ratios, "target": TARGET}, indent=2))
    else:
        _show(readings, ratios, arguments)
    return 1 if arguments.assert_ and min(ratios.values()) < TARGET else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description="Drains with and without open event streams.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each, one after the other (default: {ROUNDS})")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"in each drain (default: {JOBS:,})")
    parser.add_argument("--streams", type=int, default=STREAMS, help=f"how many are open (default: {STREAMS})")
    parser.add_argument("--store", choices=("SQLite", "PostgreSQL"), help="only this one")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help=f"exit 1 when a ratio is below {TARGET}")
    return parser.parse_args()


@contextmanager
def _database(store: str, cluster: PostgresCluster | None) -> Iterator[str]:
    if cluster is not None and store == "PostgreSQL":
        with fresh_database(cluster) as url:
            yield url
    else:
        with fresh_folder() as folder:
            yield f"sqlite:///{folder}/bench.db"


@dataclass(frozen=True, slots=True)
class Prepared:
    key: str
    jobs: list[str]


async def _prepare(url: str, jobs: int) -> Prepared:
    """As many jobs that are not due as there may be streams, so that the database is the same with and without."""
    async with Plane(url) as plane:

        @plane.agent("noop")
        async def noop(ctx: Context, at: float) -> None: ...

        later = await plane.submit_many([noop.options(delay=A_DAY).submission(at=0.0)] * jobs)
        key = await plane.access.add_key("bench", ["viewer"], tenant="default")
        return Prepared(key.secret, [handle.id for handle in later])


@contextmanager
def _watched(url: str, streams: int, *, are_open: bool) -> Iterator[None]:
    """A server is there in any case; the streams are open while the caller goes on."""
    prepared = asyncio.run(_prepare(url, streams))
    with ExitStack() as stack:
        port = _free_port()
        stack.enter_context(_process("bench.streams.server", url, str(port)))
        _wait_for(port)
        if are_open:
            jobs = [f"/api/v1/jobs/{job_id}/events" for job_id in prepared.jobs[: streams // 2]]
            lists = [f"/api/v1/jobs/events{LISTS[number % len(LISTS)]}" for number in range(streams - len(jobs))]
            listeners = stack.enter_context(_process("bench.streams.listeners", str(port), prepared.key, *jobs, *lists))
            assert listeners.stdout is not None
            if listeners.stdout.readline() != b"open\n":
                raise SystemExit("The streams could not be opened, so nothing can be compared.")
        yield
        if are_open and listeners.poll() is not None:
            raise SystemExit("The streams did not stay open. This measurement is void.")


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int) -> None:
    until = monotonic() + PATIENCE_SECONDS
    while monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            sleep(0.05)
    raise SystemExit("The server does not answer.")


def _show(readings: Readings, ratios: dict[str, float], arguments: argparse.Namespace) -> None:
    table = Table(title=f"{arguments.jobs:,} jobs, drained in jobs/s: the median round and the range", title_justify="left")
    table.add_column("")
    for title in ("no stream", f"{arguments.streams} streams", "ratio"):
        table.add_column(title, justify="right")
    for store, ratio in ratios.items():
        cells = (_cell(readings.all(store, state, "drain")) for state in (ALONE, WATCHED))
        table.add_row(store, *cells, f"{ratio:.2f}")
    console = Console()
    console.print(table)
    for store, ratio in ratios.items():
        verdict = "[green]ok" if ratio >= TARGET else "[red]MISSED"
        console.print(f"drain beside open streams, {store}: {ratio:.2f} (target {TARGET}) {verdict}", highlight=False)


def _cell(values: list[float]) -> str:
    return f"{median(values):,.0f}\n[dim]{min(values):,.0f} to {max(values):,.0f}"


if __name__ == "__main__":
    sys.exit(main())
