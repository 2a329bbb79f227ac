"""Ends approvals that nobody decided in time, reminds people of those that wait, and asks others when it is time to."""

from __future__ import annotations

from typing import assert_never

from cortex_plane.core.approvals import ApprovalId, Purpose
from cortex_plane.ports.store import Store

BATCH = 100
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
        ended = await self._store.approvals.expire(BATCH)
        due = await self._store.approvals.due(BATCH)
        for request_id, purpose in due:
            await self._see_to(request_id, purpose)
        return ended == BATCH or len(due) == BATCH

    async def _see_to(self, request_id: ApprovalId, purpose: Purpose) -> None:
        match purpose:
            case "remind":
                await self._store.approvals.remind(request_id)
            case "escalate":
                await self._store.approvals.escalate(request_id)
            case "ask" | "settle":
                raise AssertionError(f"{purpose} is never due by time")
            case unknown:
                assert_never(unknown)
