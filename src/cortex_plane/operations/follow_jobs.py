"""Tells how a list of jobs changes: which jobs are in it, each job as it now is, and which left it.

Whoever was cut off says what they saw last, and is told what has changed since; a little more than that, as what was
committed late may be older than what was told before. What is told twice is told the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import assert_never

from cortex_plane.core.instants import SECOND, Instant, instant
from cortex_plane.core.job_search import FoundJob
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.operations.search_jobs import JobWish
from cortex_plane.operations.watch_lists import ListKey, ListWatch
from cortex_plane.ports.clock import Clock

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
