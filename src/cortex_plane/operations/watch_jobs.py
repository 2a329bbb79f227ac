"""Sees for all who follow jobs in this process which of these jobs have changed, in one look: who follows one reads only then.

signals ──▶ one look at the marks of all jobs that are followed ──▶ wakes those who follow one whose mark is another
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cortex_plane.core.errors import CortexError
from cortex_plane.core.events import Mark
from cortex_plane.core.jobs import JobId
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store

LOOK_SECONDS = 0.5
SHORTEST_PAUSE_SECONDS = 0.2
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
                await self._clock.sleep(max(SHORTEST_PAUSE_SECONDS, PAUSES_FOR_A_LOOK * took))
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
