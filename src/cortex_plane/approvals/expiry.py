"""Expires, reminds and escalates what is due, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortex_plane.stores import Store

BATCH = 100


async def remind_and_escalate(store: Store) -> int:
    """Returns how many times; a full batch means that there may be more."""
    return await store.approvals.remind_and_escalate(BATCH)


# -- expire approvals --------------------------------------------------------------------------
# Ends approval requests that nobody decided in time, each as it says, in small batches.


async def expire_approvals(store: Store) -> int:
    """Returns how many; a full batch means that there may be more."""
    return await store.approvals.expire(BATCH)
