"""Processes of the tests that begin within milliseconds: forked from one that has imported the programs already.

They are processes like any other, with an id, a memory and connections of their own, and they are killed like any other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
from contextlib import chdir, suppress
from importlib import import_module
from multiprocessing import connection, forkserver
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = Path(__file__).parents[1]
PROGRAMS = [
    "tests.doors.app",
    "tests.durable.app",
    "tests.end_to_end.app",
    "tests.end_to_end.campaign.approver",
    "tests.end_to_end.campaign.worker",
    "tests.end_to_end.scheduled_app",
    "tests.graphs.app",
]
"""Modules with an `async def main(**options)`."""

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(PROGRAMS)


class Forked:
    """One of the programs as a process: it is asked and told what a `subprocess.Popen` is."""

    def __init__(self, program: str, options: dict[str, Any], log: Path | None = None) -> None:
        with chdir(ROOT):  # The one that is forked looks for the programs where it was started.
            forkserver.ensure_running()
        self.program = program
        self._process = _forking.Process(target=_begin, args=(program, options, str(log or os.devnull)), daemon=True)
        self._process.start()
        self._asking = Lock()  # Only the first who asks is told how it ended.

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._asking:
            return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        if not connection.wait([self._process.sentinel], seconds):
            raise subprocess.TimeoutExpired(self.program, seconds or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # It has just ended, and nobody has said how.
            if self.poll() is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _begin(program: str, options: dict[str, Any], log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for said in (1, 2):
        os.dup2(file, said)
    os.close(file)
    asyncio.run(import_module(program).main(**options))
