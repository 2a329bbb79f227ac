"""Detects handlers that block the event loop: logs where, and ends the process when it lasts too long.

A thread of its own, which asks the loop for a sign four times a second. It waits for nothing else, so that a slow database is not
taken for a handler that blocks.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.jobs.model import Claimed

log = structlog.get_logger()

LOOK_SECONDS = 0.25
BLOCKED_SECONDS = 1.0
EXIT_BLOCKED = 70
FRAMES_SHOWN = 30


class LoopWatch:
    """`running` returns the run of a task, if any. Past `limit_seconds` the process ends, and its jobs are rescued."""

    def __init__(self, clock: Clock, limit_seconds: float, running: Callable[[asyncio.Task[object]], Claimed | None]) -> None:
        self._clock, self._limit_seconds, self._running = clock, limit_seconds, running
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        self._asked_at: float | None = None
        self._told = False
        self._thread = threading.Thread(target=self._run, name="cortex-loop-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            if self._asked_at is None:
                self._told = False
                self._asked_at = self._clock.elapsed()
                try:
                    self._loop.call_soon_threadsafe(self._answer)
                except RuntimeError:
                    return  # The loop is closed.
            else:
                self._judge(self._clock.elapsed() - self._asked_at)

    def _answer(self) -> None:
        self._asked_at = None

    def _judge(self, seconds: float) -> None:
        """One log line for each blockage, with the place in the code."""
        if seconds > self._limit_seconds:
            log.critical("event_loop_blocked", seconds=round(seconds, 1), action="The process ends.", **self._where())
            os._exit(EXIT_BLOCKED)
        if seconds > BLOCKED_SECONDS and not self._told:
            self._told = True
            advice = "No other job of this worker proceeds meanwhile. Make the work a plain function, or move it into a thread."
            log.warning("event_loop_blocked", seconds=round(seconds, 1), advice=advice, **self._where())

    def _where(self) -> dict[str, str]:
        frame = sys._current_frames().get(self._loop_thread)
        found = {"stack": _stack(frame)} if frame is not None else {}
        task = asyncio.current_task(self._loop)
        claimed = None if task is None else self._running(task)
        if claimed is not None:
            found |= {"job_id": claimed.job_id, "run_id": claimed.run_id, "agent": claimed.job_type}
        return found


def _stack(frame: FrameType) -> str:
    return "".join(traceback.format_stack(frame)[-FRAMES_SHOWN:]).rstrip()
