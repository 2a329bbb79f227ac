"""Wake-ups on SQLite: at once inside the process, and across processes by watching the file's data version."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import apsw
import structlog

from cortex_plane.storage.sqlite.connection import connect

log = structlog.get_logger()

QUICK_SECONDS = 0.01
SLOW_SECONDS = 0.1
RELAX = 1.2


class SqliteSignals:
    """Any commit may have made work ready, so every commit wakes every subscriber: a look at the queue costs microseconds."""

    poll_seconds = 5.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._watcher: threading.Thread | None = None

    def subscribe(self, event: asyncio.Event, *, queues: frozenset[str] = frozenset(), worker_id: str | None = None) -> None:
        with self._lock:
            self._events[event] = asyncio.get_running_loop()
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="cortex-sqlite-watcher", daemon=True)
                self._watcher.start()

    def unsubscribe(self, event: asyncio.Event) -> None:
        with self._lock:
            self._events.pop(event, None)

    def wake_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.something_committed)

    def something_committed(self) -> None:
        with self._lock:
            waiting = [(event, loop) for event, loop in self._events.items() if not event.is_set()]
        for event, loop in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join()

    def _watch(self) -> None:
        """`data_version` changes when another connection commits. Reading it costs a few microseconds."""
        try:
            connection = connect(self._path, for_writing=False)
        except Exception:
            log.exception("sqlite_watcher_failed", path=str(self._path))
            return
        seen, pause = None, QUICK_SECONDS
        while not self._stop.wait(pause):
            try:
                version = connection.execute("pragma data_version").get
            except apsw.Error:
                continue  # Busy for a moment: look again.
            pause = QUICK_SECONDS if version != seen else min(pause * RELAX, SLOW_SECONDS)
            if version != seen:
                seen = version
                self.something_committed()
        connection.close()
