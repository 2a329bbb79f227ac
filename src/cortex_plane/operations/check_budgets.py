"""Refuses jobs of an agent or a tenant that has spent its budget. Whoever makes new jobs asks here first.

What is spent is read before the jobs are stored, without a lock: jobs that are submitted while the last cents are being spent
may still be taken. Jobs already waiting go on in any case.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from cortex_plane.core.controls import Scope
from cortex_plane.core.errors import BudgetExhausted
from cortex_plane.core.jobs import Job, NewJob
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store


async def check_budgets(store: Store, directory: Directory, jobs: Sequence[NewJob]) -> None:
    """One read for the whole batch, and none while no budget concerns it."""
    refusing = await directory.refusing()
    if refusing:
        await _check(store, _concerned(jobs) & refusing)


async def check_budgets_of(store: Store, job: Job) -> None:
    """For one job that is to be made again: rare enough to look each time."""
    await _check(store, _concerned([job]))


def _concerned(jobs: Sequence[NewJob | Job]) -> set[tuple[Scope, str]]:
    return {(Scope.AGENT, job.job_type) for job in jobs} | {(Scope.TENANT, str(job.tenant_id)) for job in jobs}


async def _check(store: Store, concerned: Set[tuple[Scope, str]]) -> None:
    if not concerned:
        return
    for budget in await store.costs.budgets(sorted(concerned)):
        if budget.on_exhausted == "refuse" and budget.exhausted:
            raise BudgetExhausted(budget.scope, budget.label, budget.spent_cents, budget.cents)
