"""Runs one driver in a process of its own and reads what it measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from bench.systems import ROOT

LIMIT_SECONDS = 300


class Order(Protocol):
    """Whatever a driver can be told."""

    def text(self) -> str: ...


def run_driver(driver: str, order: Order, python: Path = Path(sys.executable)) -> dict[str, float]:
    done = subprocess.run(
        [str(python), "-m", f"bench.drivers.{driver}", order.text()],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"The driver {driver} failed, so nothing can be compared:\n{done.stderr.strip()[-3000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]  # Others are warnings of its log.
    return {line["measure"]: line["value"] for line in lines}


def _environment() -> dict[str, str]:
    """A person's own settings must not change what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("CORTEX_", "PG", "PYTHON"))}
