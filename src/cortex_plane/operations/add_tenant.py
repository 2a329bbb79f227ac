"""Adds a tenant. Its name is for people and submissions; it never changes, and tenants are never deleted."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import TenantExists
from cortex_plane.core.jobs import TenantId
from cortex_plane.operations.names import checked_readable_name
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def add_tenant(store: Store, new_id: NewId, name: str, *, actor: str | None = None, reason: str | None = None) -> TenantId:
    checked_readable_name(name)
    tenant_id = TenantId(new_id())
    entry = AuditEntry("TENANT_ADDED", "tenant", tenant_id, actor, reason, tenant_id=tenant_id, details={"name": name})
    await store.tenants.add(tenant_id, name, entry)
    if await store.tenants.find(name) != tenant_id:  # It was there, or somebody else was faster.
        raise TenantExists(name)
    return tenant_id
