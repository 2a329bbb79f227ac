"""Background loop that expires, reminds and escalates approvals.

Separate from the timers of jobs, so that an error here does not delay retries and scheduled jobs.
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
    """Every worker runs this loop; the work of one is not repeated by another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._acting = asyncio.Lock()

    async def once(self) -> float:
        if await self.act():
            return 0.0
        due = await self._store.approvals.next_due_in()
        if due is None or due <= 0:  # Overdue requests that could not be processed wait for the next pass.
            return LONGEST_REST_SECONDS
        return min(max(due, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def act(self) -> bool:
        """Processes one batch of due requests. Returns whether there may be more. With no open request: one index read."""
        async with self._acting:  # A second concurrent pass would skip the rows that the first has locked.
            due = await self._store.approvals.next_due_in()
            if due is None or due > 0:
                return False
            ended = await expire_approvals(self._store)
            reminded = await remind_and_escalate(self._store)
            return BATCH in (ended, reminded)
