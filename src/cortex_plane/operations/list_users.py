"""Lists people, by name."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.people import User
from cortex_plane.ports.store import Store

LARGEST_PAGE = 1_000


async def list_users(store: Store, *, after: str = "", limit: int = 100) -> list[User]:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit must be from 1 to {LARGEST_PAGE:,}, not {limit!r:.80}.", field="limit")
    return await store.people.list_users(after=after, limit=limit)
