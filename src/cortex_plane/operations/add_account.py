"""Adds a person who can be given roles and a password."""

from __future__ import annotations

from cortex_plane.core.access import Account, AccountExists, AccountNotFound
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.people import UserId
from cortex_plane.operations.names import checked_readable_name
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def add_account(
    store: Store,
    new_id: NewId,
    name: str,
    *,
    display_name: str | None = None,
    email: str | None = None,
    actor: str | None = None,
) -> Account:
    user_id = UserId(new_id())
    checked_readable_name(name)
    if display_name is not None:
        checked_readable_name(display_name, "display_name")
    if email is not None:
        _check_email(email)
    entry = AuditEntry("USER_ADDED", "user_account", user_id, actor, details={"name": name})
    await store.accounts.add(user_id, name, display_name, email, entry)
    account = await find_account(store, name)
    if account.id != user_id:
        raise AccountExists(name)
    return account


async def find_account(store: Store, name: str) -> Account:
    account = await store.accounts.find(name)
    if account is None:
        raise AccountNotFound(name)
    return account


def _check_email(email: str) -> None:
    checked_readable_name(email, "email")
    before, at, after = email.partition("@")
    if not (before and at and after) or " " in email:
        raise InvalidInput(f"email must look like name@example.com, not {email!r:.60}.", field="email")
