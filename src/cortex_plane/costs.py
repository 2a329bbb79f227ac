"""What work has cost and what it may cost: `plane.costs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.core.budgets import Budget, CostTotal
from cortex_plane.core.controls import OnExhausted, Scope
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.set_budget import remove_budget, set_budget

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Costs:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def totals(self, *, tenant: str | None = None, agent: str | None = None) -> list[CostTotal]:
        """What was spent so far, by tenant and agent. What one job has cost is `job.cost_cents`."""
        opened = await self._plane._open_here()
        return await opened.store.costs.totals(
            tenant_id=None if tenant is None else await opened.directory.tenant(tenant),
            job_type=None if agent is None else (await opened.directory.agent(agent)).job_type,
        )

    async def budgets(self) -> list[Budget]:
        """Every budget, with what is spent of it."""
        return await (await self._plane._open_here()).store.costs.budgets()

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
        """`refuse` takes no new jobs once it is spent; `pause` lets nothing run. It counts from the first cent ever spent."""
        opened = await self._plane._open_here()
        scope, name = one_of(agent, tenant)
        return await set_budget(opened.store, opened.directory, scope, name, cents, on_exhausted, actor=actor, reason=reason)

    async def remove_budget(
        self, *, agent: str | None = None, tenant: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> None:
        """What the budget had paused goes on."""
        opened = await self._plane._open_here()
        scope, name = one_of(agent, tenant)
        await remove_budget(opened.store, opened.directory, scope, name, actor=actor, reason=reason)


def one_of(agent: str | None, tenant: str | None) -> tuple[Scope, str]:
    match agent, tenant:
        case str(name), None:
            return Scope.AGENT, name
        case None, str(name):
            return Scope.TENANT, name
        case _:
            raise InvalidInput("Say exactly one of agent and tenant.", field="agent")
