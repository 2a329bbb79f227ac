"""Signals that stop a process: the first one stops it gracefully, the second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures.thread import _worker
from functools import partial
from queue import Queue
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from cortex_plane.worker.threads import THREAD_NAME, in_a_thread

LAST_MOMENT_SECONDS = 1.0
LOOK_SECONDS = 0.02

# `timeout` and similar programs signal the process and its process group: the second signal within this time is ignored.
ECHO_SECONDS = 0.2


class StopSignals:
    """`with StopSignals(ask_to_stop) as signals:` while the worker runs.

    Uses `signal.signal`, not the event loop: a second Ctrl-C must work while a handler blocks the loop.
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
    """Exits at once. A normal exit would wait for threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def something_goes_on(others: Collection[threading.Thread]) -> bool:
    """Whether a handler still runs although its worker has stopped. Waits a moment for handlers that are just ending. `others`
    are the threads that existed before the worker."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_MOMENT_SECONDS)
    return not all(task.done() for task in tasks) or await in_a_thread(partial(_a_thread_goes_on, others))


def _a_thread_goes_on(others: Collection[threading.Thread]) -> bool:
    """Includes threads that a handler started itself or by `asyncio.to_thread`: Python would wait for them at exit."""
    until = time.monotonic() + LAST_MOMENT_SECONDS
    for thread in [one for one in threading.enumerate() if one not in others]:
        while _is_busy(thread):
            if time.monotonic() > until:
                return True
            thread.join(LOOK_SECONDS)
    return False


def _is_busy(thread: threading.Thread) -> bool:
    if not thread.is_alive() or (thread.daemon and not thread.name.startswith(THREAD_NAME)):
        return False
    return not _waits_for_work(thread)


def _waits_for_work(thread: threading.Thread) -> bool:
    """Whether this is an idle pool thread of Python or AnyIO. Idle pool threads end at exit."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None or not type(thread).__module__.startswith("anyio."):
        return frame is not None and frame.f_code is _worker.__code__
    while frame is not None and frame.f_code is not Queue.get.__code__:
        frame = frame.f_back
    return frame is not None and frame.f_back is not None and frame.f_back.f_code is type(thread).run.__code__
