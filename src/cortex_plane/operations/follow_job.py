"""Tells what happens to a job, as it happens: its states, its steps, what its runs say. Ends with the job.

history ─┐
steps   ─┼─▶ in the order of time ──▶ told, each with the position to go on from
events  ─┘
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import merge
from typing import Any

from cortex_plane.core.checkpoints import put_together
from cortex_plane.core.errors import JobNotFound
from cortex_plane.core.events import (
    JobEnded,
    JobEvent,
    LineLogged,
    News,
    NothingNew,
    Position,
    ProgressMade,
    StateChanged,
    StepRecorded,
    TokensUsed,
    Told,
)
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import Job, JobId
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.watch_jobs import JobWatch
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.json_text import loads
from cortex_plane.ports.store import Store

LOOK_SECONDS = 0.5
LOOK_UNASKED_SECONDS = 15.0
SHORTEST_PAUSE_SECONDS = 0.05
LAST_WORDS_SECONDS = 0.4
"""Workers write what their runs say a moment later than how they ended."""
RECENT = timedelta(seconds=10)
PAGE = 1000
START = Position()


async def follow_job(
    store: Store, clock: Clock, job_id: JobId, position: Position = START, watch: JobWatch | None = None
) -> AsyncIterator[Told]:
    """From the position on. Where nothing is new, that is told too, so that whoever listens knows that somebody speaks.
    With a watch, which many share, it reads only when there is something new, and now and then."""
    async with AsyncExitStack() as stack:
        if watch is None:
            woken, look_seconds = asyncio.Event(), LOOK_SECONDS
            store.signals.subscribe(woken)
            stack.callback(store.signals.unsubscribe, woken)
        else:
            woken, look_seconds = await stack.enter_async_context(watch.following(job_id)), LOOK_UNASKED_SECONDS
        follower = Follower(store, job_id, position)
        while True:
            woken.clear()
            job = await _job(store, job_id)
            if job.status.is_terminal and _has_just_ended(job, clock):
                await clock.sleep(LAST_WORDS_SECONDS)
            news = await follower.look(job)
            for told in news:
                yield told
            if job.status.is_terminal:
                yield Told(job.finished_at or job.updated_at, follower.position, JobEnded(job))
                return
            if not news:
                yield Told(as_datetime(clock.now()), follower.position, NothingNew(job))
            await clock.sleep(SHORTEST_PAUSE_SECONDS)
            await _wait(woken, look_seconds)


async def _job(store: Store, job_id: JobId) -> Job:
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job


def _has_just_ended(job: Job, clock: Clock) -> bool:
    return abs(as_datetime(clock.now()) - (job.finished_at or job.updated_at)) < RECENT


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        pass


Found = tuple[datetime, News, dict[str, int]]
"""When it happened, what, and what of the position changes once it was told."""


class Follower:
    """Reads only what may have changed since the last look."""

    def __init__(self, store: Store, job_id: JobId, position: Position) -> None:
        self._store, self._job_id = store, job_id
        self.position = position
        self._checkpoint_id: str | None = None
        self._tokens = TokensUsed(0, 0)

    async def look(self, job: Job) -> list[Told]:
        """`job` was read before anything else is: so nothing that precedes its end is missing."""
        found = merge(await self._states(job), await self._steps(job), await self._events(), key=_place)
        return [self._told(*one) for one in found]

    def _told(self, at: datetime, news: News, moved: dict[str, int]) -> Told:
        self.position = replace(self.position, **moved)
        return Told(at, self.position, news)

    async def _states(self, job: Job) -> list[Found]:
        told = self.position.revision
        history = await self._store.jobs.history(self._job_id) if job.revision > told else []
        return [
            (entry.created_at, StateChanged(entry), {"revision": entry.revision})
            for entry in history
            if told < entry.revision <= job.revision
        ]

    async def _steps(self, job: Job) -> list[Found]:
        """Unchecked: what is damaged tells nothing here, and is named by whoever looks at the job or resumes it."""
        if job.checkpoint_id is None or job.checkpoint_id == self._checkpoint_id:
            return []
        stored = await self._store.checkpoints.load(self._job_id)
        if stored is None:
            return []
        self._checkpoint_id = stored.checkpoint_id
        try:
            document = loads(stored.document)
            return list(self._new_in(document if stored.added is None else put_together(document, loads(stored.added))))
        except (ValueError, TypeError, LookupError, AttributeError):
            return []

    def _new_in(self, document: Any) -> Iterator[Found]:
        steps = [_step(logged) for logged in document["execution_log"]]
        told = self.position.step_index if steps[-1].index >= self.position.step_index else 0  # It was begun anew.
        new = [step for step in steps if step.index > told]
        tokens = TokensUsed(**document["memory_context"]["token_usage"])
        yield from ((step.finished_at, step, {"step_index": step.index}) for step in new)
        if tokens != self._tokens:
            self._tokens = tokens
            yield (new[-1].finished_at if new else datetime.fromisoformat(document["created_at"])), tokens, {}

    async def _events(self) -> list[Found]:
        events: list[JobEvent] = []
        after = self.position.seq
        while page := await self._store.events.list(self._job_id, after, PAGE):
            events += page
            after = page[-1].seq
        return [(event.at, said, {"seq": event.seq}) for event in events if (said := said_by(event)) is not None]


def _place(found: Found) -> tuple[datetime, int]:
    """Of what happened in the same instant, the end of a run comes last."""
    at, news, _ = found
    match news:
        case StateChanged(entry):
            return at, 3 if entry.previous_status is JobStatus.RUNNING else 0
        case StepRecorded() | TokensUsed():
            return at, 1
        case _:
            return at, 2


def _step(logged: dict[str, Any]) -> StepRecorded:
    return StepRecorded(
        index=logged["step_index"],
        name=logged["step_id"],
        started_at=datetime.fromisoformat(logged["started_at"]),
        finished_at=datetime.fromisoformat(logged["finished_at"]),
        tool_calls=logged["tool_calls"],
        summary=logged["result_summary"],
    )


def said_by(event: JobEvent) -> LineLogged | ProgressMade | None:
    data = event.data if isinstance(event.data, dict) else {}
    match event.kind:
        case "log":
            return LineLogged(event.run_id, str(data.get("level", "info")), str(data.get("message", "")), data.get("data"))
        case "progress":
            return ProgressMade(event.run_id, data.get("done"), data.get("total"), str(data.get("text") or ""))
        case _:  # Of a newer program.
            return None
