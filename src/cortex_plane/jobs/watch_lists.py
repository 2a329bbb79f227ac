"""Follows lists of jobs as they change. Streams with the same filter share their queries.

Looks for all who follow lists of jobs in this process: whoever asks for the same is told by the same look, and all looks
together take no more than a small part of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from cortex_plane.clock import SECOND, Clock, Instant, instant
from cortex_plane.errors import CortexError
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.search import FoundJob, JobPage, JobWish, search_jobs

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.stores import Store

SHORTEST_PAUSE_SECONDS = 1.0
PAUSES_FOR_A_LOOK = 40
"""Looks that take long are followed by a pause that is so many times as long."""


@dataclass(frozen=True, slots=True)
class ListKey:
    wish: JobWish
    tenant_id: TenantId | None
    limit: int


@dataclass(slots=True)
class Shared:
    """One list that somebody follows. Who waits gets the next look's page, or why there is none."""

    waiting: list[asyncio.Future[JobPage]] = field(default_factory=list)
    followers: int = 0


class ListWatch:
    def __init__(self, store: Store, directory: Directory, clock: Clock) -> None:
        self._store, self._directory, self._clock = store, directory, clock
        self._lists: dict[ListKey, Shared] = {}
        self._looking: asyncio.Task[None] | None = None

    async def pages(self, key: ListKey) -> AsyncIterator[JobPage]:
        """The list as it is now, then after each look."""
        shared = self._lists.setdefault(key, Shared())
        shared.followers += 1
        try:
            yield await self._search(key)
            while True:
                if self._looking is None or self._looking.done():
                    self._looking = asyncio.create_task(self._look_while_followed(), name="cortex-watch-lists")
                looked: asyncio.Future[JobPage] = asyncio.get_running_loop().create_future()
                shared.waiting.append(looked)
                yield await looked
        finally:
            shared.followers -= 1
            if not shared.followers:
                self._lists.pop(key, None)

    async def _look_while_followed(self) -> None:
        took = 0.0
        while self._lists:
            await self._clock.sleep(max(SHORTEST_PAUSE_SECONDS, PAUSES_FOR_A_LOOK * took))
            began = self._clock.elapsed()
            for key, shared in list(self._lists.items()):
                await self._look(key, shared)
            took = self._clock.elapsed() - began

    async def _look(self, key: ListKey, shared: Shared) -> None:
        told, shared.waiting = shared.waiting, []
        try:
            page = await self._search(key)
        except CortexError as error:
            for looked in told:
                if not looked.done():
                    looked.set_exception(error)
            return
        for looked in told:
            if not looked.done():
                looked.set_result(page)

    async def _search(self, key: ListKey) -> JobPage:
        return await search_jobs(self._store, self._directory, key.wish, tenant_id=key.tenant_id, limit=key.limit)


# -- follow jobs -------------------------------------------------------------------------------
# Tells how a list of jobs changes: which jobs are in it, each job as it now is, and which left it.
#
# Whoever was cut off says what they saw last, and is told what has changed since; a little more than that, as what was
# committed late may be older than what was told before. What is told twice is told the same.


LATE_COMMIT = 10 * SECOND


@dataclass(frozen=True, slots=True)
class Listed:
    """The list as a whole, newest first: what is not in it is to be forgotten."""

    ids: list[JobId]


@dataclass(frozen=True, slots=True)
class Changed:
    job: FoundJob


@dataclass(frozen=True, slots=True)
class Left:
    """It is no longer like what was asked for, or was deleted."""

    id: JobId


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nothing is new. Whoever listens knows by it that somebody speaks."""


ListNews = Listed | Changed | Left | Unchanged


async def follow_jobs(
    lists: ListWatch,
    clock: Clock,
    wish: JobWish,
    *,
    tenant_id: TenantId | None = None,
    seen: Instant | None = None,
    limit: int = 50,
    seconds: float = 300.0,
) -> AsyncIterator[tuple[Instant, list[ListNews]]]:
    """What each look has brought, with the position to go on from. Ends after so many seconds: who wants more asks again."""
    began = clock.elapsed()
    follower = Follower(seen)
    async with aclosing(lists.pages(ListKey(wish, tenant_id, limit))) as pages:  # type: ignore[type-var]
        async for page in pages:
            news = follower.look(page.jobs, full=page.next_before is not None)
            yield follower.position, news
            if clock.elapsed() - began >= seconds:
                return


class Follower:
    """Compares what is there with what was told."""

    def __init__(self, seen: Instant | None) -> None:
        self.position = Instant(0) if seen is None else seen
        self._since = self.position - LATE_COMMIT
        self._told: dict[JobId, FoundJob] | None = None

    def look(self, jobs: list[FoundJob], *, full: bool) -> list[ListNews]:
        found = {job.summary.id: job for job in jobs}
        told, self._told = self._told, found
        news: list[ListNews]
        if told is None:
            changed = [job for job in jobs if instant(job.summary.updated_at) >= self._since]
            news = [Listed(list(found)), *(Changed(job) for job in reversed(changed))]
        else:
            changed = [job for job_id, job in found.items() if told.get(job_id) != job]
            news = [*(Changed(job) for job in reversed(changed)), *_left(told, found, full)]
        self.position = max([self.position, *(instant(job.summary.updated_at) for job in changed)])
        return news or [Unchanged()]


def _left(told: dict[JobId, FoundJob], found: dict[JobId, FoundJob], full: bool) -> list[Left]:
    """What newer jobs have pushed over the edge of a full list has not left it."""
    edge = min(found, default=None) if full else None
    return [Left(job_id) for job_id in told if job_id not in found and (edge is None or job_id > edge)]


def kind_of(news: ListNews) -> str:
    match news:
        case Listed():
            return "list"
        case Changed():
            return "job"
        case Left():
            return "left"
        case Unchanged():
            return "nothing"
        case unknown:
            assert_never(unknown)
