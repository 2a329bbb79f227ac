"""Adds a person who submits, watches or decides."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.people import User, UserExists, UserId, checked_email, checked_name
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def add_user(
    store: Store,
    new_id: NewId,
    name: str,
    *,
    display_name: str | None = None,
    email: str | None = None,
    actor: str | None = None,
) -> User:
    user = User(
        UserId(new_id()),
        checked_name(name),
        None if display_name is None else checked_name(display_name, "display_name"),
        None if email is None else checked_email(email),
    )
    if not await store.people.add_user(user, AuditEntry("USER_ADDED", "user", user.id, actor, details={"name": name})):
        raise UserExists(name)
    return user
