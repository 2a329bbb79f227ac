"""`make bench`: Cortex Plane beside its peers, in interleaved rounds, so that the noise of the machine hits all alike."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from rich.console import Console

from bench.help_page import help_seconds
from bench.machine import describe_machine
from bench.order import Order
from bench.places import durable_cluster, fresh_database, fresh_folder
from bench.processes import run_driver
from bench.readings import Readings
from bench.systems import FULL, OURS, PEERS_PYTHON, QUICK, SYSTEMS, Size, System
from bench.table import show
from bench.targets import judge
from cortex_plane.testing import PostgresCluster

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    if not PEERS_PYTHON.exists():
        print("The peers are not installed. Type: make bench", file=sys.stderr)
        return 2
    describe_machine(progress)
    progress.print(f"cortex --help: {help_seconds():.3f} s", highlight=False)
    size = QUICK if arguments.quick else FULL
    readings = run_rounds(replace(size, rounds=arguments.rounds or size.rounds))
    verdicts = judge(readings)
    if arguments.json:
        targets = [{"what": str(verdict), "ratio": round(verdict.ratio, 3), "met": verdict.met} for verdict in verdicts]
        print(json.dumps({"readings": readings.as_json(), "targets": targets}, indent=2))
    else:
        show(Console(), SYSTEMS, readings, verdicts)
    return 1 if arguments.assert_ and not all(verdict.met for verdict in verdicts) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Compares Cortex Plane with its peers.")
    parser.add_argument("--quick", action="store_true", help="one short round of each, about a minute")
    parser.add_argument("--rounds", type=int, help="of each system, interleaved (default: 5, with --quick 1)")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


def run_rounds(size: Size) -> Readings:
    readings = Readings()
    with durable_cluster() as cluster:
        for number in range(1, size.rounds + 1):
            for system in SYSTEMS:
                with progress.status(f"Round {number} of {size.rounds}: {system.name} on {system.store} …"):
                    measured = _measure(cluster, system, size)
                for measure, value in measured.items():
                    readings.add(system.store, system.name, measure, value)
                progress.print(
                    f"Round {number} of {size.rounds}: {system.name} on {system.store}: {measured['drain']:,.0f} jobs/s drained, "
                    f"{measured['latency_p50']:.1f} ms to pick one up",
                    highlight=False,
                )
    return readings


def _measure(cluster: PostgresCluster, system: System, size: Size) -> dict[str, float]:
    with _place(cluster, system) as database:
        jobs, singles = int(system.jobs * size.share), int(system.singles * size.share)
        order = Order(database, jobs, singles, spaced=size.spaced, options=system.options)
        return run_driver(system.driver, order, system.python)


def _place(cluster: PostgresCluster, system: System) -> AbstractContextManager[str]:
    return fresh_database(cluster) if system.store == "PostgreSQL" else _file(is_ours=system.name == OURS)


@contextmanager
def _file(*, is_ours: bool) -> Iterator[str]:
    with fresh_folder() as folder:
        yield f"sqlite:///{folder}/bench.db" if is_ours else f"{folder}/bench.db"


if __name__ == "__main__":
    sys.exit(main())
