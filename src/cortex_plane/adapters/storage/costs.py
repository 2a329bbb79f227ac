"""What was spent, and the budgets that it counts against. The totals themselves are kept by a trigger of job."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.core.budgets import Budget, CostTotal
from cortex_plane.core.controls import Scope
from cortex_plane.core.jobs import TenantId
from cortex_plane.ports.json_text import dumps


class SqlCosts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def totals(self, *, tenant_id: TenantId | None = None, job_type: str | None = None) -> list[CostTotal]:
        found = await self._database.read("costs/totals", tenant_id=tenant_id, job_type=job_type)
        return [CostTotal(TenantId(str(row["tenant_id"])), row["tenant"], row["job_type"], row["cents"]) for row in found]

    async def budgets(self, wanted: Sequence[tuple[Scope, str]] | None = None) -> list[Budget]:
        if wanted is None:
            return [_budget(row) for row in await self._database.read("costs/budgets")]
        names = dumps([{"scope": scope, "name": name} for scope, name in wanted])
        return [_budget(row) for row in await self._database.read("costs/budgets_of", wanted=names)]

    async def pause_if_spent(self, scope: Scope, name: str) -> None:
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
