"""Who owns jobs: `plane.tenants`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.core.jobs import TenantId
from cortex_plane.core.tenants import Tenant, TenantOverview
from cortex_plane.operations.add_tenant import add_tenant
from cortex_plane.operations.show_tenant import list_tenants, show_tenant

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Tenants:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(self, name: str, *, actor: str | None = None, reason: str | None = None) -> TenantId:
        """It keeps its name, and is never deleted."""
        return await add_tenant(await self._plane.store, self._plane._ids, name, actor=actor, reason=reason)

    async def get(self, name: str) -> TenantOverview:
        """What runs and waits, what it has cost, and what is set for it."""
        return await show_tenant(await self._plane.store, name)

    async def list(self) -> list[Tenant]:
        """By name."""
        return await list_tenants(await self._plane.store)
