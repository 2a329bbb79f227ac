"""Ends approvals that nobody decided in time, reminds people of those that wait, and asks others when it is time to."""

from __future__ import annotations

from cortex_plane.operations import chase_approvals as chasing
from cortex_plane.operations import expire_approvals as expiring
from cortex_plane.ports.store import Store

LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.05


class Deadlines:
    """Every worker looks; what one of them has done the others find done."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def once(self) -> float:
        if await self.act():
            return 0.0
        due = await self._store.approvals.next_due_in()
        return LONGEST_REST_SECONDS if due is None else min(max(due, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def act(self) -> bool:
        """Does what is due, one batch of it; whether there may be more."""
        ended = await expiring.expire_approvals(self._store)
        chased = await chasing.chase_approvals(self._store)
        return ended == expiring.BATCH or chased == chasing.BATCH
