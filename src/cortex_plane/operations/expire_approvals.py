"""Ends approval requests that nobody decided in time, each as it says, in small batches."""

from __future__ import annotations

from cortex_plane.ports.store import Store

BATCH = 100


async def expire_approvals(store: Store) -> int:
    """Returns how many; a full batch means that there may be more."""
    return await store.approvals.expire(BATCH)
