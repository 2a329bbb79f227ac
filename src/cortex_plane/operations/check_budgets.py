"""Refuses jobs of an agent or a tenant that has spent its budget. Whoever makes new jobs asks here first.

What is spent is read before the jobs are stored, without a lock: jobs that are submitted while the last cents are being spent
may still be taken. Jobs already waiting go on in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.core.controls import Scope
from cortex_plane.core.errors import BudgetExhausted
from cortex_plane.core.jobs import NewJob
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store


async def check_budgets(store: Store, directory: Directory, jobs: Sequence[NewJob]) -> None:
    """One read for the whole batch, and none while no budget concerns it."""
    refusing = await directory.refusing()
    if not refusing:
        return
    concerned = {(Scope.AGENT, job.job_type) for job in jobs} | {(Scope.TENANT, str(job.tenant_id)) for job in jobs}
    wanted = sorted(concerned & refusing)
    if not wanted:
        return
    for budget in await store.costs.budgets(wanted):
        if budget.on_exhausted == "refuse" and budget.exhausted:
            raise BudgetExhausted(budget.scope, budget.label, budget.spent_cents, budget.cents)
