"""Runs a piece of work in a child that is forked from this process: everything is imported already, nothing is open yet."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.002


class Hung(Exception):
    """It did not end within the patience of the probe."""


class Failed(Exception):
    """It ended by an error, whose last line this is."""


class Killed(Exception):
    """It was killed, as was wanted."""


class Frozen(Exception):
    """It has stopped itself, and waits for SIGCONT."""


def in_child(work: Callable[[], Any], answer: Path) -> Any:
    """The work's value. What the child prints goes to a file beside the answer."""
    return outcome_of(start(work, answer), answer)


def start(work: Callable[[], Any], answer: Path) -> int:
    child = os.fork()
    if child == 0:
        _work_and_leave(work, answer)
    return child


def outcome_of(child: int, answer: Path) -> Any:
    """Waits for the child. Raises Frozen when it stops itself, and can then be called again."""
    status = _status(child)
    if os.WIFSTOPPED(status):
        raise Frozen
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        raise Killed
    if status != 0:
        raise Failed(_last_line(_log(answer)))
    return json.loads(answer.read_text())


def _work_and_leave(work: Callable[[], Any], answer: Path) -> None:
    code = 1
    try:
        log = os.open(_log(answer), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        answer.write_text(json.dumps(work()))
        code = 0
    except BaseException:
        _log(answer).open("a").write(traceback.format_exc())
    finally:
        os._exit(code)


def _status(child: int) -> int:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid:
            return status
        time.sleep(LOOK_SECONDS)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise Hung


def _log(answer: Path) -> Path:
    return answer.with_suffix(".log")


def _last_line(log: Path) -> str:
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return said[-1].strip()[:300] if said else "no reason given"
