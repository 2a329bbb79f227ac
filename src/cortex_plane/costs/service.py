"""`plane.costs`: budgets, and their check at submission.

Refuses jobs of an agent or a tenant that has spent its budget. Whoever makes new jobs asks here first.

What is spent is read before the jobs are stored, without a lock: jobs that are submitted while the last cents are being spent
may still be taken. Jobs already waiting go on in any case.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.costs.model import Budget, CostTotal, check_cents, check_on_exhausted, with_budget, without_budget
from cortex_plane.errors import BudgetExhausted, BudgetNotFound, InvalidInput
from cortex_plane.jobs.model import Job, NewJob, TenantId
from cortex_plane.queues.model import OnExhausted, Scope

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


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


# -- set budget --------------------------------------------------------------------------------
# Says what the jobs of an agent or a tenant may cost, and what happens when it is spent.


async def set_budget(
    store: Store,
    directory: Directory,
    scope: Scope,
    name: str,
    cents: int,
    on_exhausted: OnExhausted = "refuse",
    *,
    actor: str | None = None,
    reason: str | None = None,
) -> Budget:
    """`refuse` takes no new jobs once it is spent; `pause` lets nothing run. A budget counts from the first cent ever spent.
    What the old budget had paused goes on if the new one is not spent yet; one that is spent already pauses at once."""
    key = await _key(directory, scope, name)
    check_cents(cents)
    check_on_exhausted(on_exhausted)
    spent = await _spent(store, scope, key)
    entry = _entry("BUDGET_SET", scope, key, actor, reason, budget_cents=cents, on_exhausted=on_exhausted, spent_cents=spent)
    await store.controls.change(scope, key, lambda control: with_budget(control, cents, on_exhausted, spent), entry)
    await store.costs.pause_if_spent(scope, key)
    directory.forget_budgets()
    return await _stored(store, scope, key, name)


async def remove_budget(
    store: Store, directory: Directory, scope: Scope, name: str, *, actor: str | None = None, reason: str | None = None
) -> None:
    """What the budget had paused goes on."""
    key = await _key(directory, scope, name)
    entry = _entry("BUDGET_REMOVED", scope, key, actor, reason)
    if not await store.controls.change(scope, key, without_budget, entry):
        raise BudgetNotFound(scope, name)
    directory.forget_budgets()


async def _key(directory: Directory, scope: Scope, name: str) -> str:
    """An agent by its name, a tenant by its id. Both must exist."""
    match scope:
        case Scope.AGENT:
            return (await directory.agent(name)).job_type
        case Scope.TENANT:
            return await directory.tenant(name)
        case Scope.GATE | Scope.QUEUE:
            raise InvalidInput(f"Agents and tenants have budgets, a {scope} has none.", field="scope")


async def _spent(store: Store, scope: Scope, key: str) -> int:
    tenant_id, job_type = (None, key) if scope is Scope.AGENT else (TenantId(key), None)
    return sum(total.cents for total in await store.costs.totals(tenant_id=tenant_id, job_type=job_type))


async def _stored(store: Store, scope: Scope, key: str, name: str) -> Budget:
    for budget in await store.costs.budgets([(scope, key)]):
        return budget
    raise BudgetNotFound(scope, name)  # Somebody has removed it meanwhile.


def _entry(action: str, scope: Scope, key: str, actor: str | None, reason: str | None, **details: object) -> AuditEntry:
    tenant_id = key if scope is Scope.TENANT else None
    return AuditEntry(action, scope.value, key, actor, reason, tenant_id=tenant_id, details=dict(details))


# -- costs -------------------------------------------------------------------------------------
# What work has cost and what it may cost: `plane.costs`.


class CostService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def totals(self, *, tenant: str | None = None, agent: str | None = None) -> list[CostTotal]:
        """What was spent so far, by tenant and agent. What one job has cost is `job.cost_cents`."""
        return await self._plane.store.costs.totals(
            tenant_id=None if tenant is None else await self._plane.directory.tenant(tenant),
            job_type=None if agent is None else (await self._plane.directory.agent(agent)).job_type,
        )

    async def budgets(self) -> list[Budget]:
        """Every budget, with what is spent of it."""
        return await self._plane.store.costs.budgets()

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
        scope, name = one_of(agent, tenant)
        return await set_budget(
            self._plane.store, self._plane.directory, scope, name, cents, on_exhausted, actor=actor, reason=reason
        )

    async def remove_budget(
        self, *, agent: str | None = None, tenant: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> None:
        """What the budget had paused goes on."""
        scope, name = one_of(agent, tenant)
        await remove_budget(self._plane.store, self._plane.directory, scope, name, actor=actor, reason=reason)


def one_of(agent: str | None, tenant: str | None) -> tuple[Scope, str]:
    match agent, tenant:
        case str(name), None:
            return Scope.AGENT, name
        case None, str(name):
            return Scope.TENANT, name
        case _:
            raise InvalidInput("Say exactly one of agent and tenant.", field="agent")
