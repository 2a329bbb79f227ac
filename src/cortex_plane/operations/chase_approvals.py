"""Reminds approvers, and escalates to others, where a request says so and the time has come."""

from __future__ import annotations

from cortex_plane.ports.store import Store

BATCH = 100


async def chase_approvals(store: Store) -> int:
    """Returns how many requests were due; a full batch means that there may be more."""
    due = await store.approvals.due(BATCH)
    for request_id, purpose in due:
        if purpose == "escalate":
            await store.approvals.escalate(request_id)
        else:
            await store.approvals.remind(request_id)
    return len(due)
