"""How long somebody waits for `cortex --help`: the whole process, the best of a few."""

from __future__ import annotations

import subprocess
import sys
import time

COMMAND = [sys.executable, "-c", "from cortex_plane.cli.main import main; main(['--help'])"]
TIMES = 5


def help_seconds() -> float:
    return min(_once() for _ in range(TIMES))


def _once() -> float:
    began = time.perf_counter()
    subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(f"cortex --help: {help_seconds():.3f} s (to stay below 0.15 s)")
