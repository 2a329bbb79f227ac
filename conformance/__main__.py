"""`make conformance`: kills Cortex Plane, DBOS and LangGraph at every boundary of their writes, and tells what held."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from conformance.order import Order, Trial
from conformance.participants import OURS, PARTICIPANTS, ROOT, Participant
from conformance.properties import Verdict, judge
from conformance.table import Findings, show
from cortex_plane.testing import PostgresCluster

STORES = ("SQLite", "PostgreSQL")
QUICK_KILLS = 6
IN_PARALLEL = 6
LIMIT_SECONDS = 600
MAY_FAIL = ("failed", "parallel")
"""Trials whose first process may end by an error: that is what they are about."""

progress = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    chosen = [participant for participant in PARTICIPANTS if arguments.system in (None, participant.system)]
    if any(not participant.python.exists() for participant in chosen):
        print("The peers are not installed. Type: make conformance", file=sys.stderr)
        return 2
    stores = (arguments.store,) if arguments.store else ("SQLite",) if arguments.quick else STORES
    found = {store: _probe(store, chosen, QUICK_KILLS if arguments.quick else 0) for store in stores}
    if arguments.json:
        print(json.dumps({store: _as_json(findings) for store, findings in found.items()}, indent=2))
    else:
        for store, findings in found.items():
            show(Console(), store, findings)
    return 0 if all(_ours_holds(findings) for findings in found.values()) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m conformance", description="Kills agents and looks at what is left.")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_KILLS} kills of each kind, on SQLite unless told; under half a minute"
    )
    parser.add_argument("--system", choices=[participant.system for participant in PARTICIPANTS], help="only this one")
    parser.add_argument("--store", choices=STORES, help="only this one (default: both, with --quick SQLite)")
    parser.add_argument("--json", action="store_true", help="every verdict with every broken kill, as JSON")
    return parser.parse_args()


def _probe(store: str, participants: Sequence[Participant], at_most: int) -> Findings:
    findings = {}
    for participant in participants:
        where = f"{participant.title} on {store}"
        with progress.status(f"{where}: killing …"), _place(store) as (folder, server):
            trials = _run_host(Order(participant.system, server, folder, at_most, IN_PARALLEL), participant.python)
        progress.print(f"{where}: killed {sum(trial.was_killed for trial in trials)} times", highlight=False)
        findings[participant.title] = judge(trials, participant.not_promised)
    return findings


@contextmanager
def _place(store: str) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="cortex-conformance-") as folder:
        if store == "SQLite":
            yield folder, ""
            return
        # A kill of a client takes nothing from the server, so the server need not sync.
        with PostgresCluster(settings={"fsync": "off", "autovacuum": "off"}) as cluster:
            yield folder, cluster.url()


def _run_host(order: Order, python: Path) -> list[Trial]:
    done = subprocess.run(
        [str(python), "-m", "conformance.host", order.text()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    trials = [Trial.read(line) for line in done.stdout.splitlines()]
    ended_by_themselves = [
        trial.first.trouble for trial in trials if trial.first.ended in ("failed", "hung") and trial.kind not in MAY_FAIL
    ]
    if done.returncode != 0 or ended_by_themselves:
        trouble = ended_by_themselves[0] if ended_by_themselves else done.stderr.strip()[-3000:]
        raise SystemExit(f"{order.system} failed before it was killed, so nothing can be said of it:\n{trouble}")
    return trials


def _ours_holds(findings: Findings) -> bool:
    return not any(verdict.broken for verdict in findings.get(OURS, ()))


def _as_json(findings: Findings) -> dict[str, list[dict[str, object]]]:
    return {system: [_verdict_as_json(verdict) for verdict in verdicts] for system, verdicts in findings.items()}


def _verdict_as_json(verdict: Verdict) -> dict[str, object]:
    return {
        "property": verdict.name,
        "outcome": verdict.outcome,
        "trials": verdict.trials,
        "broken": verdict.broken,
        "not_offered": verdict.not_offered,
        "locked": verdict.locked,
    }


if __name__ == "__main__":
    sys.exit(main())
