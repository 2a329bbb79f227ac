"""Makes an API key. It is shown once; what is kept is its beginning, to know it by, and its hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from secrets import token_bytes

from cortex_plane.core.access import (
    KEY_BYTES,
    SHOWN_CHARACTERS,
    AccountNotFound,
    AddedKey,
    ApiKeyId,
    NewApiKey,
    check_roles,
    digest,
    new_key,
)
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.names import checked_readable_name
from cortex_plane.operations.revoke_api_key import find_api_key
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store

LONGEST_TTL_SECONDS = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class KeyWish:
    """Without a tenant it works in all of them; without a time it works for ever."""

    name: str
    roles: Sequence[str]
    tenant: str | None = None
    user: str | None = None
    ttl_seconds: float | None = None
    created_by: str | None = None


async def add_api_key(
    store: Store, directory: Directory, new_id: NewId, wish: KeyWish, random_bytes: Callable[[int], bytes] = token_bytes
) -> AddedKey:
    secret = new_key(random_bytes(KEY_BYTES))
    account = None if wish.user is None else await store.accounts.find(wish.user)
    if wish.user is not None and account is None:
        raise AccountNotFound(wish.user)
    key = NewApiKey(
        id=ApiKeyId(new_id()),
        name=checked_readable_name(wish.name),
        prefix=secret[:SHOWN_CHARACTERS],
        hash=digest(secret),
        roles=check_roles(wish.roles),
        tenant_id=None if wish.tenant is None else await directory.tenant(wish.tenant),
        user_id=None if account is None else account.id,
        created_by=wish.created_by,
        ttl_seconds=_checked_ttl(wish.ttl_seconds),
    )
    details = {"name": key.name, "prefix": key.prefix, "roles": list(key.roles)}
    entry = AuditEntry("API_KEY_ADDED", "api_key", key.id, wish.created_by, tenant_id=key.tenant_id, details=details)
    await store.keys.add(key, entry)
    return AddedKey(await find_api_key(store, key.id), secret)


def _checked_ttl(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds):
        raise InvalidInput(f"ttl_seconds must be a number of seconds, not {seconds!r:.60}.", field="ttl_seconds")
    if not 0 < seconds <= LONGEST_TTL_SECONDS:
        raise InvalidInput("ttl_seconds must be more than 0 and at most 100 years.", field="ttl_seconds")
    return float(seconds)
