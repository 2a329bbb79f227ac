"""Cancels every member of a group that has not ended. The group is then finished, and its callback is told."""

from __future__ import annotations

from cortex_plane.core.groups import GroupFinished, GroupId
from cortex_plane.operations.show_group import show_group
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def cancel_group(
    store: Store, new_id: NewId, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None
) -> tuple[GroupId, int]:
    """The group's id, and how many members were cancelled."""
    group = await show_group(store, id_or_prefix)
    cancelled = await store.groups.cancel(group.id, new_id, actor, reason)
    if not cancelled:
        raise GroupFinished(group.id, (await show_group(store, group.id)).status)
    return group.id, cancelled
