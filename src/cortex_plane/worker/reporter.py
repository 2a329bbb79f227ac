"""Log lines and progress of runs, written in batches."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from cortex_plane.errors import Unavailable
from cortex_plane.jobs.events import EventKind, NewEvent
from cortex_plane.jobs.model import Claimed, JobId, RunId
from cortex_plane.json import dumps
from cortex_plane.redaction import redacted, redacted_text

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.stores import Store

log = structlog.get_logger()

LARGEST_BATCH = 500
PAUSE_SECONDS = 0.2
MOST_WAITING = 20_000
BATCHES_IN_A_TURN = MOST_WAITING // LARGEST_BATCH
TEXT_LIMIT = 10_000


@dataclass(slots=True)
class Gap:
    """Lines of one run that were dropped, in the place of the first of them."""

    job_id: JobId
    run_id: RunId
    at: int
    lines: int = 1

    def event(self) -> NewEvent:
        what = "1 line was" if self.lines == 1 else f"{self.lines:,} lines were"
        message = f"{what} dropped here: there were more than could be stored."
        return NewEvent(self.job_id, self.run_id, self.at, "log", dumps({"level": "warning", "message": message}))


class Reporter:
    """Thread-safe. Only the newest progress of a run is kept. Past a limit lines are dropped and replaced by a line with
    their number; lines that could not be written are kept for the next attempt."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting: deque[NewEvent | Gap] = deque()
        self._gaps: dict[RunId, Gap] = {}
        """The last line of these runs is a gap, which may grow."""
        self._progress: dict[RunId, NewEvent] = {}
        self._lock = threading.Lock()
        self._writing = asyncio.Lock()

    def tell(self, job_id: JobId, run_id: RunId, kind: EventKind, data: Mapping[str, Any]) -> None:
        event = NewEvent(job_id, run_id, self._clock.now(), kind, dumps(_plain(data)))
        with self._lock:
            if kind == "progress":
                self._progress[run_id] = event
            elif len(self._waiting) < MOST_WAITING:
                self._gaps.pop(run_id, None)
                self._waiting.append(event)
            else:
                self._drop(event)

    def _drop(self, event: NewEvent) -> None:
        if gap := self._gaps.get(event.run_id):
            gap.lines += 1
        else:
            self._gaps[event.run_id] = gap = Gap(event.job_id, event.run_id, event.at)
            self._waiting.append(gap)

    async def once(self) -> float:
        """Writes the collected lines; run by a background loop. Waits for a write in progress."""
        async with self._writing:
            for _ in range(BATCHES_IN_A_TURN):
                batch = self._next_batch()
                if not batch:
                    return PAUSE_SECONDS
                try:
                    await self._add(batch)
                except (Unavailable, asyncio.CancelledError):  # It may be written twice, but it is not lost.
                    self._put_back(batch)
                    raise
        return 0.0

    async def finish(self) -> None:
        """The last turn of a worker that ends."""
        try:
            await self.once()
        except Unavailable as error:
            lines = sum(one.lines if isinstance(one, Gap) else 1 for one in self._waiting)
            log.warning("log_lines_not_stored", lines=lines, error=str(error))

    async def _add(self, batch: list[NewEvent]) -> None:
        """A line that the database rejects is dropped alone and replaced by a note."""
        try:
            await self._store.events.add(batch)
        except Unavailable:
            raise
        except Exception as error:
            if len(batch) == 1:
                log.warning("event_refused", job_id=batch[0].job_id, error=f"{type(error).__name__}: {error}")
                await self._store.events.add([Gap(batch[0].job_id, batch[0].run_id, batch[0].at).event()])
            else:
                await self._add(batch[: len(batch) // 2])
                await self._add(batch[len(batch) // 2 :])

    def _next_batch(self) -> list[NewEvent]:
        batch: list[NewEvent] = []
        with self._lock:
            while self._waiting and len(batch) < LARGEST_BATCH:
                one = self._waiting.popleft()
                if isinstance(one, Gap):
                    self._gaps.pop(one.run_id, None)
                    one = one.event()
                batch.append(one)
            batch += self._progress.values()
            self._progress.clear()
        return batch

    def _put_back(self, batch: list[NewEvent]) -> None:
        with self._lock:
            self._waiting.extendleft(event for event in reversed(batch) if event.kind != "progress")
            for event in batch:
                if event.kind == "progress":
                    self._progress.setdefault(event.run_id, event)


def _plain(value: Any) -> Any:
    """Converts any value to JSON: a log line must never fail a job."""
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


# -- run log -----------------------------------------------------------------------------------
# `ctx.log`: lines that go to the program's log and are stored with the run, so that people can follow it from elsewhere.


current_run: ContextVar[Claimed | None] = ContextVar("current_run", default=None)
"""The run of this task or thread. Setting it is the whole cost that a run pays for log attribution."""


def add_run(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A processor of structlog: adds job and run ids to every line logged during a run."""
    claimed = current_run.get()
    if claimed is not None:
        event.setdefault("job_id", claimed.job_id)
        event.setdefault("run_id", claimed.run_id)
        event.setdefault("tenant_id", claimed.tenant_id)
        event.setdefault("agent", claimed.job_type)
    return event


class RunLog:
    __slots__ = ("_job_id", "_log", "_reporter", "_run_id")

    def __init__(self, job_id: JobId, run_id: RunId, agent: str, reporter: Reporter | None) -> None:
        self._job_id, self._run_id, self._reporter = job_id, run_id, reporter
        self._log = structlog.get_logger().bind(job_id=job_id, run_id=run_id, agent=agent)

    def debug(self, message: str, **data: Any) -> None:
        """In the program's log only."""
        self._log.debug(message, **data)

    def info(self, message: str, **data: Any) -> None:
        self._write("info", message, data)

    def warning(self, message: str, **data: Any) -> None:
        self._write("warning", message, data)

    def error(self, message: str, **data: Any) -> None:
        self._write("error", message, data)

    def _write(self, level: str, message: str, data: dict[str, Any]) -> None:
        getattr(self._log, level)(message, **data)
        if self._reporter is not None:
            told = {"level": level, "message": redacted_text(str(message))}
            self._reporter.tell(self._job_id, self._run_id, "log", {**told, "data": redacted(data)} if data else told)
