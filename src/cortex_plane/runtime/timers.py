"""Makes ready what has fallen due: delayed jobs, retries, sleeps. Ends reservations whose holder fell silent."""

from __future__ import annotations

import asyncio

from cortex_plane.ports.store import Store

BATCH = 500
LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.005


class Timers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._promoting = asyncio.Lock()

    async def once(self) -> float:
        await self._store.reservations.expire()
        if await self.promote() == BATCH:
            return 0.0
        due = await self._store.queue.next_due_in()
        if due is None:
            return LONGEST_REST_SECONDS
        return min(max(due, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def promote(self) -> int:
        """One after the other: the second would skip what the first has locked, and believe that nothing was due."""
        async with self._promoting:
            return await self._store.queue.promote_due(BATCH)
