"""What runs tell while they go on: log lines and progress, collected and written in batches. For people who watch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from cortex_plane.core.events import EventKind, NewEvent
from cortex_plane.core.jobs import JobId, RunId
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.json_text import dumps
from cortex_plane.ports.store import Store

LARGEST_BATCH = 500
PAUSE_SECONDS = 0.2
MOST_WAITING = 20_000
TEXT_LIMIT = 10_000


class Reporter:
    """Any thread may tell. Of a run's progress only the newest counts. Lines past a limit are dropped."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting: list[NewEvent] = []
        self._progress: dict[RunId, NewEvent] = {}
        self._lock = threading.Lock()
        self._writing = asyncio.Lock()

    def tell(self, job_id: JobId, run_id: RunId, kind: EventKind, data: Mapping[str, Any]) -> None:
        event = NewEvent(job_id, run_id, self._clock.now(), kind, dumps(_plain(data)))
        with self._lock:
            if kind == "progress":
                self._progress[run_id] = event
            elif len(self._waiting) < MOST_WAITING:
                self._waiting.append(event)

    async def once(self) -> float:
        """A duty of the worker: writes what was told. Whoever leaves waits here until what is just being written is."""
        async with self._writing:
            while batch := self._next_batch():
                await self._store.events.add(batch)
        return PAUSE_SECONDS

    def _next_batch(self) -> list[NewEvent]:
        with self._lock:
            batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
            batch += self._progress.values()
            self._progress.clear()
        return batch


def _plain(value: Any) -> Any:
    """Whatever was told, as JSON: a line of a log is never a reason to fail."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        return {_clean(str(key)): _plain(item) for key, item in list(value.items())[:100]}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in list(value)[:100]]
    try:
        return _clean(str(value))
    except Exception:
        return f"<{type(value).__name__}>"


def _clean(text: str) -> str:
    return text[:TEXT_LIMIT].replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
