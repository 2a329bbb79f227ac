"""Sets a person's password, and signs them out everywhere: whoever knew the old one is out."""

from __future__ import annotations

import asyncio

from cortex_plane.core.access import check_password
from cortex_plane.core.audit import AuditEntry
from cortex_plane.operations.add_account import find_account
from cortex_plane.ports.passwords import Passwords
from cortex_plane.ports.store import Store


async def set_password(store: Store, passwords: Passwords, name: str, password: str, *, actor: str | None = None) -> None:
    check_password(password)
    account = await find_account(store, name)
    hashed = await asyncio.to_thread(passwords.hash, password)
    entry = AuditEntry("PASSWORD_SET", "user_account", account.id, actor, details={"name": name})
    await store.accounts.set_password(account.id, hashed, entry)
