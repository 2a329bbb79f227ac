"""Pauses, limits, fair share, the gate, and holds by `RetryAfter`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed
from cortex_plane.queues.model import Control, HoldScope, Scope, paused, resumed

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.stores import Store

GATE_NAME = ""
MOST_RUNNING = 1_000_000


async def pause(store: Store, scope: Scope, name: str, *, actor: str | None, reason: str | None) -> bool:
    """Idempotent: the first actor and reason are kept. Returns False if it was already paused."""
    if scope is Scope.QUEUE and name == INTERNAL_QUEUE:
        raise InvalidInput(f'Queue "{INTERNAL_QUEUE}" is the plane\'s own and cannot be paused.', field="queue")
    action = "GATE_CLOSED" if scope is Scope.GATE else f"{scope.upper()}_PAUSED"
    return await store.controls.change(
        scope, name, lambda c: paused(c, actor, reason), _entry(action, scope, name, actor, reason)
    )


async def resume(store: Store, scope: Scope, name: str, *, actor: str | None, reason: str | None) -> bool:
    action = "GATE_OPENED" if scope is Scope.GATE else f"{scope.upper()}_RESUMED"
    return await store.controls.change(scope, name, resumed, _entry(action, scope, name, actor, reason))


async def limit(
    store: Store, scope: Scope, name: str, max_running: int | None, *, actor: str | None, reason: str | None = None
) -> bool:
    """Limits the number of running jobs over all workers; None lifts the limit."""
    if max_running is not None and (
        isinstance(max_running, bool) or not isinstance(max_running, int) or not 1 <= max_running <= MOST_RUNNING
    ):
        raise InvalidInput(
            f"max_running must be a whole number from 1 to {MOST_RUNNING:,}, not {max_running!r}. To stop it, pause it.",
            field="max_running",
        )
    entry = _entry("LIMIT_SET", scope, name, actor, reason, max_running=max_running)
    return await store.controls.change(scope, name, lambda c: replace(c, max_running=max_running), entry)


async def share_fairly(store: Store, queue: str, share: bool, *, actor: str | None, reason: str | None = None) -> bool:
    entry = _entry("FAIR_SHARE_SET", Scope.QUEUE, queue, actor, reason, fair_share=share)
    return await store.controls.change(Scope.QUEUE, queue, lambda c: replace(c, fair_share=share), entry)


async def named(
    directory: Directory, queue: str | None = None, agent: str | None = None, tenant: str | None = None
) -> tuple[Scope, str]:
    """Returns scope and name of the one that is given. Agents and tenants must exist; queues need not."""
    match (queue, agent, tenant):
        case (str(), None, None):
            if not queue.strip():
                raise InvalidInput("The name of a queue cannot be empty.", field="queue")
            return Scope.QUEUE, queue
        case (None, str(), None):
            return Scope.AGENT, (await directory.agent(agent)).job_type
        case (None, None, str()):
            return Scope.TENANT, await directory.tenant(tenant)
        case _:
            raise InvalidInput("Give exactly one of queue, agent and tenant.", field="queue")


def _entry(action: str, scope: Scope, name: str, actor: str | None, reason: str | None, **details: object) -> AuditEntry:
    tenant_id = name if scope is Scope.TENANT else None
    return AuditEntry(action, scope.value, name or scope.value, actor, reason, tenant_id=tenant_id, details=dict(details))


def is_open(controls: list[Control]) -> bool:
    return not any(control.scope is Scope.GATE and control.paused for control in controls)


# -- hold work ---------------------------------------------------------------------------------
# `RetryAfter(scope=...)`: claims no job of the same agent or queue until the time is over.


REASON_LIMIT = 500


async def hold_work(store: Store, claimed: Claimed, scope: HoldScope, seconds: float, reason: str) -> None:
    """Holds an agent or queue. It ends automatically. A longer hold stays; a superseded run sets none."""
    if scope == "job" or claimed.queue == INTERNAL_QUEUE:
        return
    name = claimed.job_type if scope == "agent" else claimed.queue
    await store.controls.hold(Scope(scope), name, seconds, f"{reason[:REASON_LIMIT]} (job {claimed.job_id})", claimed)
