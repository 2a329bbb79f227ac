"""Finds a grant by its id, or by the first part of one, as people type it."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.grants import Grant, GrantId, GrantNotFound
from cortex_plane.operations.find_job import DASHES, ID_LENGTH, PART_OF_AN_ID
from cortex_plane.ports.store import Store


async def find_grant(store: Store, id_or_prefix: str) -> Grant:
    prefix = str(id_or_prefix).strip().lower()
    if not is_part_of_an_id(prefix):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not a grant id, nor the first four or more characters of one.", field="id")
    found = [GrantId(prefix)] if len(prefix) == ID_LENGTH else await store.grants.find(prefix)
    if len(found) > 1:
        raise InvalidInput(f"{prefix} fits {len(found)} grants or more: {', '.join(found[:3])}. Give more of the id.", field="id")
    grant = await store.grants.get(found[0]) if found else None
    if grant is None:
        raise GrantNotFound(prefix)
    return grant


def is_id(text: str) -> bool:
    """A whole one, of whatever it may be."""
    return len(text) == ID_LENGTH and is_part_of_an_id(text)


def is_part_of_an_id(text: str) -> bool:
    return bool(PART_OF_AN_ID.fullmatch(text)) and all((char == "-") == (place in DASHES) for place, char in enumerate(text))
