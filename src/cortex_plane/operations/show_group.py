"""A group as it stands, and its members."""

from __future__ import annotations

from cortex_plane.core.groups import LARGEST_GROUP, Group, GroupNotFound, Member
from cortex_plane.operations.find_group import find_group_id
from cortex_plane.ports.store import Store


async def show_group(store: Store, id_or_prefix: str) -> Group:
    group_id = await find_group_id(store, id_or_prefix)
    group = await store.groups.get(group_id)
    if group is None:
        raise GroupNotFound(group_id)
    return group


async def group_members(store: Store, id_or_prefix: str, *, limit: int = LARGEST_GROUP) -> list[Member]:
    return await store.groups.members((await show_group(store, id_or_prefix)).id, limit=limit)
