"""Says what the jobs of an agent or a tenant may cost, and what happens when it is spent."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.budgets import Budget, check_cents, check_on_exhausted, with_budget, without_budget
from cortex_plane.core.controls import OnExhausted, Scope
from cortex_plane.core.errors import BudgetNotFound, InvalidInput
from cortex_plane.core.jobs import TenantId
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store


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
