"""What there is to know about a tenant: what runs and waits, what it has cost, and what is set for it."""

from __future__ import annotations

from cortex_plane.core.controls import Scope
from cortex_plane.core.errors import TenantNotFound
from cortex_plane.core.tenants import Tenant, TenantOverview
from cortex_plane.ports.store import Store


async def list_tenants(store: Store) -> list[Tenant]:
    """By name."""
    return await store.tenants.list()


async def show_tenant(store: Store, name: str) -> TenantOverview:
    tenant = next((tenant for tenant in await store.tenants.list() if tenant.name == name), None)
    if tenant is None:
        raise TenantNotFound(name)
    running, waiting = await store.tenants.count_jobs(tenant.id)
    return TenantOverview(
        tenant=tenant,
        running=running,
        waiting=waiting,
        costs=await store.costs.totals(tenant_id=tenant.id),
        control=await store.controls.get(Scope.TENANT, tenant.id),
    )
