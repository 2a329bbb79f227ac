"""Signs a person in by name and password, or out. Guessing is slow, and is stopped on every server at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_bytes

from cortex_plane.core.access import SESSION_BYTES, Account, SignedIn, TooManyTries, WrongPassword, digest, secret_text
from cortex_plane.core.audit import AuditEntry
from cortex_plane.ports.passwords import Passwords
from cortex_plane.ports.store import Store

TTL_SECONDS = 12 * 3600.0
WINDOW_SECONDS = 300.0
MOST_TRIES_FOR_A_NAME = 10
MOST_TRIES_FROM_AN_ADDRESS = 50
NOBODYS_HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$2wBV0pKHoyCzMwWGT3QeXOsTbTzJ4cKx2Vw2WSwD9nI"
"""Of no password. It is compared with when the name is unknown: an answer that comes sooner would tell that it is."""


async def sign_in(
    store: Store,
    passwords: Passwords,
    name: str,
    password: str,
    address: str = "",
    *,
    ttl_seconds: float = TTL_SECONDS,
    random_bytes: Callable[[int], bytes] = token_bytes,
) -> SignedIn:
    """`address` is where the request came from, to count tries by."""
    await limit_tries(store, f"sign-in:name:{digest(name)}", MOST_TRIES_FOR_A_NAME)
    await limit_tries(store, f"sign-in:from:{address}", MOST_TRIES_FROM_AN_ADDRESS)
    account = await store.accounts.find(name)
    hashed = None if account is None else await store.accounts.password(account.id)
    matches = await asyncio.to_thread(passwords.matches, hashed or NOBODYS_HASH, password)
    if account is None or hashed is None or not matches:
        raise WrongPassword
    if await asyncio.to_thread(passwords.is_dated, hashed):
        await store.accounts.set_password(account.id, await asyncio.to_thread(passwords.hash, password), None)
    return await open_sign_in(store, account, address, ttl_seconds=ttl_seconds, random_bytes=random_bytes)


async def open_sign_in(
    store: Store,
    account: Account,
    address: str = "",
    *,
    ttl_seconds: float = TTL_SECONDS,
    random_bytes: Callable[[int], bytes] = token_bytes,
) -> SignedIn:
    """For somebody who has proved who they are."""
    token = secret_text(random_bytes(SESSION_BYTES))
    await store.sign_ins.add(digest(token), account.id, ttl_seconds, _entry(account, address))
    return SignedIn(account, token, ttl_seconds)


async def sign_out(store: Store, token: str) -> bool:
    return await store.sign_ins.remove(digest(token))


async def limit_tries(store: Store, bucket: str, most: int, window_seconds: float = WINDOW_SECONDS) -> None:
    hits, seconds_left = await store.http.hit(bucket, window_seconds)
    if hits > most:
        raise TooManyTries(seconds_left)


def _entry(account: Account, address: str) -> AuditEntry:
    return AuditEntry("SIGNED_IN", "user_account", account.id, f"user:{account.name}", source=address or None)
