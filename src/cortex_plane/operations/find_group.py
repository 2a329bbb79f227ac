"""Finds a group by its id, or by the first part of one, as people type it."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.groups import GroupId, GroupNotFound
from cortex_plane.operations.find_job import DASHES, ID_LENGTH, PART_OF_AN_ID
from cortex_plane.ports.store import Store


async def find_group_id(store: Store, id_or_prefix: str) -> GroupId:
    prefix = id_or_prefix.strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not a group id, nor the first four or more characters of one.", field="id")
    if len(prefix) == ID_LENGTH:
        return GroupId(prefix)
    found = await store.groups.find(prefix)
    if not found:
        raise GroupNotFound(prefix)
    if len(found) > 1:
        raise InvalidInput(
            f"{prefix} fits {len(found)} groups or more: {', '.join(found[:3])}, … Give more of the id.", field="id"
        )
    return found[0]
