"""Finds a person by name."""

from __future__ import annotations

from cortex_plane.core.people import User, UserNotFound
from cortex_plane.ports.store import Store


async def find_user(store: Store, name: str) -> User:
    user = await store.people.find_user(name)
    if user is None:
        raise UserNotFound(name)
    return user
