"""Removes a template. Jobs that were made from it keep everything that it said."""

from __future__ import annotations

from cortex_plane.core.jobs import DEFAULT_TENANT
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_template import not_found
from cortex_plane.ports.store import Store


async def remove_template(
    store: Store, directory: Directory, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None
) -> None:
    tenant_id = await directory.tenant(tenant)
    if not await store.templates.remove(tenant_id, name, actor):
        raise await not_found(store, tenant_id, name)
