"""How a worker process ends: the first signal asks, the second insists, and no handler outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

HANDLER_THREADS = "cortex-handler"
LAST_MOMENT_SECONDS = 1.0

# `timeout`, and other programs that start us, signal both us and our process group: that is one wish, heard twice.
ECHO_SECONDS = 0.2


class Signals:
    """`with Signals(ask_to_stop) as signals:` while the worker runs.

    Plain signal handlers, not the event loop's: those would not hear a second Ctrl-C while a handler blocks the loop.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._heard_at: float | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def heard(self) -> bool:
        return self._heard_at is not None

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self._heard_at is None:
            self._heard_at = time.monotonic()
            self._loop.call_soon_threadsafe(self._on_first)
        elif time.monotonic() - self._heard_at > ECHO_SECONDS:
            end_now(128 + number)


def end_now(code: int) -> NoReturn:
    """Without waiting for threads, which Python would do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def something_goes_on() -> bool:
    """Whether a handler goes on although its worker has stopped. A moment is given to those that are just ending."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_MOMENT_SECONDS)
    return not all(task.done() for task in tasks) or await asyncio.to_thread(_a_thread_goes_on)


def _a_thread_goes_on() -> bool:
    until = time.monotonic() + LAST_MOMENT_SECONDS
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(HANDLER_THREADS)]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return any(thread.is_alive() for thread in threads)
