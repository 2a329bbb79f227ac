"""Lists API keys, oldest first; those that no longer work, too."""

from __future__ import annotations

from cortex_plane.core.access import ApiKey
from cortex_plane.core.jobs import TenantId
from cortex_plane.ports.store import Store


async def list_api_keys(store: Store, tenant_id: TenantId | None = None, *, shared: bool = False) -> list[ApiKey]:
    """All of them, or those of one tenant; with `shared` also those that work in every tenant."""
    if tenant_id is None or not shared:
        return await store.keys.list(tenant_id)
    return [key for key in await store.keys.list() if key.tenant_id in {None, tenant_id}]
