"""Ends approvals that nobody decided in time, reminds people of those that wait, and asks others when it is time to.

Apart from the timers: whatever goes wrong with an approval, delayed jobs and retries still fall due.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cortex_plane.approvals.expiry import BATCH, expire_approvals, remind_and_escalate

if TYPE_CHECKING:
    from cortex_plane.stores import Store

LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.005


class Deadlines:
    """Every worker looks; what one of them has done the others find done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._acting = asyncio.Lock()

    async def once(self) -> float:
        if await self.act():
            return 0.0
        due = await self._store.approvals.next_due_in()
        if due is None or due <= 0:  # What could not be done now is not hurried.
            return LONGEST_REST_SECONDS
        return min(max(due, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def act(self) -> bool:
        """Does what is due, one batch of it; whether there may be more. While none is open, this is one look into an index."""
        async with self._acting:  # The second of two would skip what the first has locked.
            due = await self._store.approvals.next_due_in()
            if due is None or due > 0:
                return False
            ended = await expire_approvals(self._store)
            reminded = await remind_and_escalate(self._store)
            return BATCH in (ended, reminded)
