"""Tenants, budgets and retention through a server: what belongs to the whole installation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from types import NoneType
from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.bodies import given
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.budgets import Budget, CostTotal
from cortex_plane.core.controls import OnExhausted
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.retention import RetentionRule
from cortex_plane.core.states import JobStatus
from cortex_plane.core.tenants import Tenant, TenantOverview
from cortex_plane.costs import Costs, one_of
from cortex_plane.operations.keep_jobs import rule_named
from cortex_plane.retention import Retention
from cortex_plane.tenants import Tenants

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


@dataclass(frozen=True, slots=True)
class Added:
    id: TenantId
    name: str


class RemoteTenants(Tenants):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def add(self, name: str, *, actor: str | None = None, reason: str | None = None) -> TenantId:
        return (await self._server.create(Added, "tenants", body=given(name=name, reason=reason))).id

    async def get(self, name: str) -> TenantOverview:
        return await self._server.get(TenantOverview, "tenants", name)

    async def list(self) -> list[Tenant]:
        return await self._server.get(list[Tenant], "tenants")


class RemoteCosts(Costs):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def totals(self, *, tenant: str | None = None, agent: str | None = None) -> list[CostTotal]:
        return await self._server.get(list[CostTotal], "costs", tenant=tenant, agent=agent)

    async def budgets(self) -> list[Budget]:
        return await self._server.get(list[Budget], "budgets")

    async def set_budget(
        self,
        cents: int,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        on_exhausted: OnExhausted = "refuse",
        actor: str | None = None,
        reason: str | None = None,
    ) -> Budget:
        scope, name = one_of(agent, tenant)
        body = given(cents=cents, on_exhausted=on_exhausted, reason=reason)
        return await self._server.put(Budget, "budgets", scope.value, name, body=body)

    async def remove_budget(
        self, *, agent: str | None = None, tenant: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> None:
        scope, name = one_of(agent, tenant)
        await self._server.delete(NoneType, "budgets", scope.value, name, reason=reason)


class RemoteRetention(Retention):
    """Deleting at once needs the database; workers do it by themselves."""

    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def add(
        self,
        keep: float | timedelta,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: JobStatus | str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> RetentionRule:
        body = given(keep_seconds=keep, for_tenant=tenant, for_agent=agent, for_status=status, reason=reason)
        return await self._server.create(RetentionRule, "retention", body=body)

    async def remove(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> RetentionRule:
        rule = rule_named(id_or_prefix, await self.list())
        return await self._server.delete(RetentionRule, "retention", rule.id, reason=reason)

    async def list(self) -> list[RetentionRule]:
        return await self._server.get(list[RetentionRule], "retention")
