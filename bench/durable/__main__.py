"""`python -m bench.durable`: durable steps of Cortex Plane beside DBOS and Restate, in interleaved rounds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console

from bench.durable.restate_server import NotHere, restate_server
from bench.durable.systems import FULL, QUICK, RESTATE, SYSTEMS, Size, System
from bench.durable.table import show
from bench.durable.targets import STORES, judge
from bench.machine import describe_machine
from bench.places import durable_cluster, fresh_database, fresh_folder
from bench.processes import run_driver
from bench.readings import Readings
from bench.systems import PEERS_PYTHON
from cortex_plane.testing import PostgresCluster

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    if not PEERS_PYTHON.exists():
        print("The peers are not installed. Type: make bench", file=sys.stderr)
        return 2
    describe_machine(progress)
    size = QUICK if arguments.quick else FULL
    systems = _present()
    readings = run_rounds(systems, replace(size, rounds=arguments.rounds or size.rounds))
    verdicts = judge(readings)
    if arguments.json:
        targets = [{"what": str(verdict), "ratio": round(verdict.ratio, 3), "met": verdict.met} for verdict in verdicts]
        print(json.dumps({"readings": readings.as_json(), "targets": targets}, indent=2))
    else:
        show(Console(), systems, readings, verdicts)
    return 1 if arguments.assert_ and not all(verdict.met for verdict in verdicts) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.durable", description="Compares durable steps.")
    parser.add_argument("--quick", action="store_true", help="one short round of each, about half a minute")
    parser.add_argument("--rounds", type=int, help=f"of each system, interleaved (default: {FULL.rounds}, with --quick 1)")
    parser.add_argument("--json", action="store_true", help="every reading, as JSON")
    parser.add_argument("--assert", dest="assert_", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


def _present() -> Sequence[System]:
    try:
        restate_server()
    except NotHere as reason:
        progress.print(f"[yellow]Restate is left out: {reason}")
        return [system for system in SYSTEMS if system.name != RESTATE]
    return SYSTEMS


def run_rounds(systems: Sequence[System], size: Size) -> Readings:
    readings = Readings()
    with durable_cluster() as cluster:
        for number in range(1, size.rounds + 1):
            for system in systems:
                where = f"{system.name} on {system.store or 'its own store'}"
                with progress.status(f"Round {number} of {size.rounds}: {where} …"), _place(cluster, system) as database:
                    measured = run_driver(system.driver, system.order(database, size.share), system.python)
                _add(readings, system, measured)
                progress.print(
                    f"Round {number} of {size.rounds}: {where}: {measured['many']:,.0f} steps/s with 100 agents, "
                    f"{measured['alone']:,.0f} with one",
                    highlight=False,
                )
    return readings


def _add(readings: Readings, system: System, measured: dict[str, float]) -> None:
    for store in STORES if system.store is None else (system.store,):
        for measure, value in measured.items():
            readings.add(store, system.name, measure, value)


@contextmanager
def _place(cluster: PostgresCluster, system: System) -> Iterator[str]:
    if system.store == "PostgreSQL":
        with fresh_database(cluster) as url:
            yield url
    else:
        with fresh_folder() as folder:
            yield f"sqlite:///{folder}/bench.db" if system.store else str(folder)


if __name__ == "__main__":
    sys.exit(main())
