"""Disables an account, so that it may do nothing from now on, or enables it again."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.operations.find_user import find_user
from cortex_plane.ports.store import Store


async def disable_user(store: Store, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
    """False when it was disabled already."""
    user = await find_user(store, name)
    return await store.people.disable_user(user.id, AuditEntry("USER_DISABLED", "user", user.id, actor, reason))


async def enable_user(store: Store, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
    user = await find_user(store, name)
    return await store.people.enable_user(user.id, AuditEntry("USER_ENABLED", "user", user.id, actor, reason))
