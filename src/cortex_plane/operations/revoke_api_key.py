"""Takes an API key back. It stays in the list, so that what it did can still be told."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.core.access import ApiKey, ApiKeyNotFound
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import TenantId
from cortex_plane.operations.list_api_keys import list_api_keys
from cortex_plane.ports.store import Store

SHORTEST_PART = 4


async def revoke_api_key(
    store: Store,
    id_or_prefix: str,
    *,
    tenant_id: TenantId | None = None,
    shared: bool = False,
    actor: str | None = None,
    reason: str | None = None,
) -> ApiKey:
    """One that is revoked already stays so, from the moment when it first was."""
    key = await find_api_key(store, id_or_prefix, tenant_id, shared=shared)
    details = {"name": key.name, "prefix": key.prefix}
    entry = AuditEntry("API_KEY_REVOKED", "api_key", key.id, actor, reason, tenant_id=key.tenant_id, details=details)
    await store.keys.revoke(key.id, entry)
    return await find_api_key(store, key.id, tenant_id, shared=shared)


async def find_api_key(store: Store, id_or_prefix: str, tenant_id: TenantId | None = None, *, shared: bool = False) -> ApiKey:
    return key_named(id_or_prefix, await list_api_keys(store, tenant_id, shared=shared))


def key_named(id_or_prefix: str, keys: Sequence[ApiKey]) -> ApiKey:
    """By its id, its name, or the first part of either the id or the key, as a list shows them."""
    wanted = id_or_prefix.strip()
    exact = [key for key in keys if wanted in (key.id, key.prefix)] or [key for key in keys if key.name == wanted]
    found = exact or [key for key in keys if len(wanted) >= SHORTEST_PART and key.id.startswith(wanted)]
    if not found:
        raise ApiKeyNotFound(id_or_prefix)
    if len(found) > 1:
        names = ", ".join(key.prefix for key in found[:3])
        raise InvalidInput(f"{wanted} fits {len(found)} keys: {names}. Give the id or the prefix.", field="id")
    return found[0]
