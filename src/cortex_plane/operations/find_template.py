"""Finds a template by its name; a name that is nearly right is answered with the right one."""

from __future__ import annotations

from cortex_plane.core.jobs import DEFAULT_TENANT, TenantId
from cortex_plane.core.templates import Template, TemplateNotFound
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store


async def find_template(store: Store, directory: Directory, name: str, *, tenant: str = DEFAULT_TENANT) -> Template:
    tenant_id = await directory.tenant(tenant)
    found = await store.templates.get(tenant_id, name)
    if found is None:
        raise await not_found(store, tenant_id, name)
    return found


async def not_found(store: Store, tenant_id: TenantId, name: str) -> TemplateNotFound:
    return TemplateNotFound(name, [template.name for template in await store.templates.list(tenant_id)])
