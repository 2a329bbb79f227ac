"""Accounts and passwords: add, find, hash, sign in and out, with limits against guessing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from secrets import token_bytes
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import InvalidInput
from cortex_plane.http_client import network_of
from cortex_plane.people.model import UserId, checked_readable_name
from cortex_plane.people.roles import (
    SESSION_BYTES,
    Account,
    AccountExists,
    AccountNotFound,
    SignedIn,
    TooManySignIns,
    TooManyTries,
    WrongPassword,
    check_password,
    digest,
    secret_text,
)

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.people.passwords import Passwords
    from cortex_plane.stores import Store


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


# -- hash passwords ----------------------------------------------------------------------------
# Argon2 takes 64 MiB for each password. In one process two are hashed at a time, some wait, and further callers get 429.
#
# Without a limit 45 sign-ins at once, by nobody in particular, took 1.4 GB.


P = ParamSpec("P")
T = TypeVar("T")

AT_A_TIME = 2
MOST_WAITING = 20
RETRY_SECONDS = 2.0


class PasswordThreads:
    """Threads of their own. Work that nobody waits for any more still counts until it has ended: its memory is taken."""

    def __init__(self, at_a_time: int = AT_A_TIME, most_waiting: int = MOST_WAITING) -> None:
        self._threads = ThreadPoolExecutor(at_a_time, thread_name_prefix="cortex-password")
        self._most, self._taken, self._lock = at_a_time + most_waiting, 0, threading.Lock()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises TooManySignIns when all threads are busy and enough callers wait already."""
        with self._lock:
            if self._taken >= self._most:
                raise TooManySignIns(RETRY_SECONDS)
            self._taken += 1
        try:
            done = self._threads.submit(work, *args, **kwargs)
        except BaseException:
            self._release()
            raise
        done.add_done_callback(self._release)
        return await asyncio.wrap_future(done)

    def _release(self, _done: Future[T] | None = None) -> None:
        with self._lock:
            self._taken -= 1


password_threads = PasswordThreads()


# -- sign in -----------------------------------------------------------------------------------
# Signs a person in by name and password, or out. Guessing is slow, and is stopped on every server at once.


TTL_SECONDS = 12 * 3600.0
WINDOW_SECONDS = 300.0
MOST_TRIES_FOR_A_NAME = 10
"""From one address. From elsewhere the name can sign in all the same: otherwise anybody could lock anybody out."""
MOST_TRIES_FROM_AN_ADDRESS = 50
"""Failed ones. Then each name has fewer, but the first of each still count: many people may share one address."""
MOST_TRIES_IN_A_CROWD = 3
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
    """`address` is where the request came from: failures are counted by it and the name together."""
    tries = await _count_try(store, name, address)
    account = await store.accounts.find(name)
    hashed = None if account is None else await store.accounts.password(account.id)
    matches = await password_threads.run(passwords.matches, hashed or NOBODYS_HASH, password)
    if account is None or hashed is None or not matches:
        raise WrongPassword
    for bucket, count in tries.items():
        await store.http.take_back(bucket, count)
    if passwords.is_dated(hashed):
        await store.accounts.set_password(account.id, await password_threads.run(passwords.hash, password), None)
    return await open_sign_in(store, account, address, ttl_seconds=ttl_seconds, random_bytes=random_bytes)


async def open_sign_in(
    store: Store,
    account: Account,
    address: str = "",
    *,
    ttl_seconds: float = TTL_SECONDS,
    random_bytes: Callable[[int], bytes] = token_bytes,
) -> SignedIn:
    """For somebody who has proved who they are. Raises WrongPassword when the account was disabled meanwhile: a sign-in that
    waited until it is enabled again would be one that disabling has not ended."""
    token = secret_text(random_bytes(SESSION_BYTES))
    if not await store.sign_ins.add(digest(token), account.id, ttl_seconds, _entry(account, address)):
        raise WrongPassword
    return SignedIn(account, token, ttl_seconds)


async def sign_out(store: Store, token: str) -> bool:
    return await store.sign_ins.remove(digest(token))


async def _count_try(store: Store, name: str, address: str) -> dict[str, int]:
    """Counted before the password is looked at, so that many at once are not let through; taken back when it is right."""
    network = network_of(address)
    of_address = f"sign-in:from:{digest(network)}"
    of_both = f"sign-in:name:{digest(f'{name} {network}')}"
    hits, seconds_left = await store.http.hit(of_both, WINDOW_SECONDS)
    if hits > MOST_TRIES_FOR_A_NAME:
        raise TooManyTries(seconds_left)
    from_there, _ = await store.http.hit(of_address, WINDOW_SECONDS)
    if from_there > MOST_TRIES_FROM_AN_ADDRESS and hits > MOST_TRIES_IN_A_CROWD:
        raise TooManyTries(seconds_left)
    return {of_address: 1, of_both: hits}


async def limit_tries(store: Store, bucket: str, most: int, window_seconds: float = WINDOW_SECONDS) -> None:
    hits, seconds_left = await store.http.hit(bucket, window_seconds)
    if hits > most:
        raise TooManyTries(seconds_left)


def _entry(account: Account, address: str) -> AuditEntry:
    return AuditEntry("SIGNED_IN", "user_account", account.id, f"user:{account.name}", source=address or None)


# -- set password ------------------------------------------------------------------------------
# Sets a person's password, and signs them out everywhere: whoever knew the old one is out.


async def set_password(store: Store, passwords: Passwords, name: str, password: str, *, actor: str | None = None) -> None:
    check_password(password)
    account = await find_account(store, name)
    if account.owner_id is not None:
        raise InvalidInput(f"{name} is a service account: it has keys, and no password.", field="name")
    hashed = await password_threads.run(passwords.hash, password)
    entry = AuditEntry("PASSWORD_SET", "user_account", account.id, actor, details={"name": name})
    await store.accounts.set_password(account.id, hashed, entry)
