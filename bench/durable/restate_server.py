"""Restate's server, from npm, at the version that is locked beside this file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.systems import PEERS_PYTHON

LOCKED = Path(__file__).parent / "restate"
INSTALLED = PEERS_PYTHON.parents[1] / "restate"
INSTALL_SECONDS = 120


class NotHere(Exception):
    """Why this machine cannot run it, in one line."""


def restate_server() -> Path:
    """The program; installed when it is first asked for."""
    if not (node := shutil.which("node")) or not (npm := shutil.which("npm")):
        raise NotHere("its server comes from npm, and this machine has no node and npm.")
    program = INSTALLED / "node_modules" / ".bin" / "restate-server"
    if not program.exists():
        _install(npm)
    if subprocess.run([str(program), "--version"], capture_output=True, check=False).returncode != 0:
        raise NotHere(f"its server does not start here with {node}.")
    return program


def _install(npm: str) -> None:
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(LOCKED / name, INSTALLED / name)
    try:  # Without scripts: the only one there reports to a third party.
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        done = subprocess.run(command, cwd=INSTALLED, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotHere(f"npm did not install its server within {INSTALL_SECONDS} s.") from None
    if done.returncode != 0:
        raise NotHere(f"npm could not install its server: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
