"""`plane.tenants`: add, show, list and erase tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import TenantExists, TenantNotFound
from cortex_plane.jobs.model import TenantId
from cortex_plane.people.erasing import Erased, erase_tenant
from cortex_plane.people.model import Tenant, TenantOverview, checked_readable_name
from cortex_plane.queues.model import Scope

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def add_tenant(store: Store, new_id: NewId, name: str, *, actor: str | None = None, reason: str | None = None) -> TenantId:
    checked_readable_name(name)
    tenant_id = TenantId(new_id())
    entry = AuditEntry("TENANT_ADDED", "tenant", tenant_id, actor, reason, tenant_id=tenant_id, details={"name": name})
    await store.tenants.add(tenant_id, name, entry)
    if await store.tenants.find(name) != tenant_id:  # It was there, or somebody else was faster.
        raise TenantExists(name)
    return tenant_id


# -- show tenant -------------------------------------------------------------------------------
# What there is to know about a tenant: what runs and waits, what it has cost, and what is set for it.


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


# -- tenants -----------------------------------------------------------------------------------
# Who owns jobs: `plane.tenants`.


class TenantService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(self, name: str, *, actor: str | None = None, reason: str | None = None) -> TenantId:
        """It keeps its name, and is never deleted."""
        return await add_tenant(self._plane.store, self._plane._ids, name, actor=actor, reason=reason)

    async def get(self, name: str) -> TenantOverview:
        """What runs and waits, what it has cost, and what is set for it."""
        return await show_tenant(self._plane.store, name)

    async def erase(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Erased:
        """Removes all that is stored for it: jobs, schedules, grants, keys, webhooks, roles. Open jobs are cancelled first.
        Its id stays, and the audit log, with pseudonyms. It cannot be undone."""
        erased = await erase_tenant(self._plane.store, name, actor=actor, reason=reason)
        self._plane.directory.forget_tenant(name)
        return erased

    async def list(self) -> list[Tenant]:
        """By name."""
        return await list_tenants(self._plane.store)
