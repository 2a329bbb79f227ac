"""Expires requests and sends due reminders and escalations, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortex_plane.stores import Store

BATCH = 100


async def remind_and_escalate(store: Store) -> int:
    """Returns how many were sent; a full batch means that there may be more."""
    return await store.approvals.remind_and_escalate(BATCH)


# -- expire approvals --------------------------------------------------------------------------
# Closes requests whose time is over, each by its `on_expiry`, in small batches.


async def expire_approvals(store: Store) -> int:
    """Returns how many were closed; a full batch means that there may be more."""
    return await store.approvals.expire(BATCH)
