"""The life of one job, traced: which files and functions it crosses from submission to its end, on SQLite.

A plane that is open runs a job with one step and one tool: submit, start a worker, claim, run, save, finish, stop the worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

PROBE = Path(__file__).with_name("probe.py")
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Life:
    files: list[str]
    functions: int


def trace(src: Path) -> Life | None:
    """None if this source tree cannot be run here, for example because it needs other dependencies."""
    with TemporaryDirectory(prefix="cortex-house-") as folder:
        command = [sys.executable, str(PROBE), str(src.resolve()), folder]
        try:
            subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        except subprocess.SubprocessError:
            return None
        called: list[tuple[str, str]] = json.loads((Path(folder) / "called.json").read_text())
    return Life(files=sorted({file for file, _ in called}), functions=len(called))


def _environment() -> dict[str, str]:
    """Without the settings of the person who measures, so that the figures are the same everywhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
