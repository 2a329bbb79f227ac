"""Follows one job: its history, steps, log lines and progress, as they come.

Sees for all who follow jobs in this process which of these jobs have changed, in one look: who follows one reads only then.

signals ──▶ one look at the marks of all jobs that are followed ──▶ wakes those who follow one whose mark is another
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import merge
from typing import TYPE_CHECKING, Any

from cortex_plane.clock import Clock, as_datetime
from cortex_plane.durable.schema import RESERVED
from cortex_plane.errors import CortexError, JobNotFound
from cortex_plane.jobs.events import (
    JobEnded,
    JobEvent,
    LineLogged,
    Mark,
    News,
    NothingNew,
    Position,
    ProgressMade,
    StateChanged,
    StepRecorded,
    TimedEvent,
    TokensUsed,
)
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import loads

if TYPE_CHECKING:
    from cortex_plane.jobs.model import Job, JobId
    from cortex_plane.stores import Store

LOOK_SECONDS = 0.5
SHORTEST_WATCH_SECONDS = 0.2
PAUSES_FOR_A_LOOK = 50
"""A look that takes long is followed by a pause that is so many times as long."""


class JobWatch:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._followers: dict[JobId, set[asyncio.Event]] = defaultdict(set)
        self._marks: dict[JobId, Mark] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def following(self, job_id: JobId) -> AsyncIterator[asyncio.Event]:
        """The event is set when the job may have changed, or the database does not answer."""
        changed = asyncio.Event()
        self._followers[job_id].add(changed)
        self._marks.pop(job_id, None)  # Whatever happened before this moment may have been missed.
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_while_followed(), name="cortex-watch-jobs")
        try:
            yield changed
        finally:
            self._followers[job_id].discard(changed)
            if not self._followers[job_id]:
                del self._followers[job_id]
                self._marks.pop(job_id, None)

    async def _look_while_followed(self) -> None:
        woken = asyncio.Event()
        self._store.signals.subscribe(woken)
        try:
            while self._followers:
                woken.clear()
                began = self._clock.elapsed()
                await self._look()
                took = self._clock.elapsed() - began
                await self._clock.sleep(max(SHORTEST_WATCH_SECONDS, PAUSES_FOR_A_LOOK * took))
                await _wait(woken, LOOK_SECONDS)
        finally:
            self._store.signals.unsubscribe(woken)

    async def _look(self) -> None:
        followed = list(self._followers)
        try:
            marks = await self._store.events.marks(followed)
        except CortexError:
            for job_id in followed:
                self._tell(job_id)  # They ask themselves, and are told what is wrong.
            return
        for job_id in followed:
            if marks.get(job_id) is None or marks[job_id] != self._marks.get(job_id):
                self._tell(job_id)
        self._marks = {job_id: mark for job_id, mark in marks.items() if job_id in self._followers}

    def _tell(self, job_id: JobId) -> None:
        for changed in self._followers.get(job_id, ()):
            changed.set()


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        pass


# -- follow job --------------------------------------------------------------------------------
# Tells what happens to a job, as it happens: its states, its steps, what its runs say. Ends with the job.
#
# history ─┐
# steps   ─┼─▶ in the order of time ──▶ told, each with the position to go on from
# events  ─┘


LOOK_UNASKED_SECONDS = 15.0
SHORTEST_PAUSE_SECONDS = 0.05
LAST_WORDS_SECONDS = 0.4
"""Workers write what their runs say a moment later than how they ended."""
RECENT = timedelta(seconds=10)
PAGE = 1000
START = Position()


async def follow_job(
    store: Store, clock: Clock, job_id: JobId, position: Position = START, watch: JobWatch | None = None
) -> AsyncIterator[TimedEvent]:
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
                yield TimedEvent(job.finished_at or job.updated_at, follower.position, JobEnded(job))
                return
            if not news:
                yield TimedEvent(as_datetime(clock.now()), follower.position, NothingNew(job))
            await clock.sleep(SHORTEST_PAUSE_SECONDS)
            await _wait(woken, look_seconds)


async def _job(store: Store, job_id: JobId) -> Job:
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job


def _has_just_ended(job: Job, clock: Clock) -> bool:
    return abs(as_datetime(clock.now()) - (job.finished_at or job.updated_at)) < RECENT


Found = tuple[datetime, News, dict[str, int]]
"""When it happened, what, and what of the position changes once it was told."""


class Follower:
    """Reads only what may have changed since the last look."""

    def __init__(self, store: Store, job_id: JobId, position: Position) -> None:
        self._store, self._job_id = store, job_id
        self.position = position
        self._checkpoint_id: str | None = None
        self._segment = 0
        self._tokens = TokensUsed(0, 0)

    async def look(self, job: Job) -> list[TimedEvent]:
        """`job` was read before anything else is: so nothing that precedes its end is missing."""
        found = merge(await self._states(job), await self._steps(job), await self._events(), key=_place)
        return [self._told(*one) for one in found]

    def _told(self, at: datetime, news: News, moved: dict[str, int]) -> TimedEvent:
        self.position = replace(self.position, **moved)
        return TimedEvent(at, self.position, news)

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
        stored = await self._store.checkpoints.load(self._job_id, self._segment)
        if stored is None:
            return []
        self._checkpoint_id = stored.checkpoint_id
        try:
            document = loads(stored.document)
            named = document["memory_context"]["working_data"][RESERVED].get("sealed", {"first": math.inf})
            segments = [segment for segment in stored.segments or () if segment.seq and segment.seq >= named["first"]]
            log = [logged for segment in segments for logged in loads(segment.content)["execution_log"]]
            self._segment = max((segment.seq or 0 for segment in segments), default=self._segment)
            return list(self._new_in({**document, "execution_log": [*log, *document["execution_log"]]}))
        except (ValueError, TypeError, LookupError, AttributeError):
            return []

    def _new_in(self, document: Any) -> Iterator[Found]:
        """The log is that of the document and of segments that were not read before."""
        steps = [_step(logged) for logged in document["execution_log"]]
        told = self.position.step_index if document["step_index"] >= self.position.step_index else 0  # It was begun anew.
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
