"""Looks for all who follow lists of jobs in this process: whoever asks for the same is told by the same look, and all looks
together take no more than a small part of the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from cortex_plane.core.errors import CortexError
from cortex_plane.core.job_search import JobPage
from cortex_plane.core.jobs import TenantId
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.search_jobs import JobWish, search_jobs
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store

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
