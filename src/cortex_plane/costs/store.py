"""Stores costs and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.costs.model import Budget, CostTotal
from cortex_plane.jobs.model import TenantId
from cortex_plane.json import dumps
from cortex_plane.queues.model import Scope

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database, Row


class CostStore:
    """The totals are kept by the database, in the transaction in which a job's cost grows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def totals(self, *, tenant_id: TenantId | None = None, job_type: str | None = None) -> list[CostTotal]:
        found = await self._database.read("costs/totals", tenant_id=tenant_id, job_type=job_type)
        return [CostTotal(TenantId(str(row["tenant_id"])), row["tenant"], row["job_type"], row["cents"]) for row in found]

    async def budgets(self, wanted: Sequence[tuple[Scope, str]] | None = None) -> list[Budget]:
        """All budgets, or those of these agents (by name) and tenants (by id), with what is spent of them."""
        if wanted is None:
            return [_budget(row) for row in await self._database.read("costs/budgets")]
        names = dumps([{"scope": scope, "name": name} for scope, name in wanted])
        return [_budget(row) for row in await self._database.read("costs/budgets_of", wanted=names)]

    async def pause_if_spent(self, scope: Scope, name: str) -> None:
        """What the database does by itself when a cost uses a budget up, for one that was set too late."""
        await self._database.write("costs/pause_if_spent", scope=scope, name=name)


def _budget(row: Row) -> Budget:
    return Budget(
        scope=Scope(row["scope"]),
        name=row["name"],
        label=row["label"] or row["name"],
        cents=row["budget_cents"],
        spent_cents=row["spent_cents"],
        on_exhausted=row["on_exhausted"],
        paused=bool(row["paused"]),
    )
