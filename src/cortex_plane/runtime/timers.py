"""Makes ready what has fallen due: delayed jobs, retries, sleeps. Ends reservations whose holder fell silent, and approvals that
nobody decided in time; reminds those who are asked."""

from __future__ import annotations

from cortex_plane.operations import chase_approvals, expire_approvals
from cortex_plane.ports.store import Store

BATCH = 500
LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.005


class Timers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._next_approval: float | None = None

    async def once(self) -> float:
        await self._store.reservations.expire()
        more = await self._see_to_approvals()
        if await self._store.queue.promote_due(BATCH) == BATCH or more:
            return 0.0
        due = [seconds for seconds in (await self._store.queue.next_due_in(), self._next_approval) if seconds is not None]
        return min(max(min(due, default=LONGEST_REST_SECONDS), SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def _see_to_approvals(self) -> bool:
        """Whether there is more to do at once. While none is open, this is one look into an index."""
        self._next_approval = await self._store.approvals.next_due_in()
        if self._next_approval is None or self._next_approval > 0:
            return False
        ended = await expire_approvals.expire_approvals(self._store)
        chased = await chase_approvals.chase_approvals(self._store)
        left = await self._store.approvals.next_due_in()
        self._next_approval = left if left is not None and left > 0 else None  # What could not be done now is not hurried.
        return ended == expire_approvals.BATCH or chased == chase_approvals.BATCH
