"""Adds a schedule, together with a grant of its own unless one is named, and the job of its first slot: all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.billing import DEFAULT_ACCOUNT
from cortex_plane.core.errors import Denied
from cortex_plane.core.grants import AGENT_TARGET, TEMPLATE_TARGET, GrantId, NewGrant, check_within, problem_with, scope_of
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import DEFAULT_TENANT, TenantId
from cortex_plane.core.schedules import Schedule, ScheduleId, ScheduleTerms, Source
from cortex_plane.core.slots import first_slot, standing_at
from cortex_plane.operations.add_grant import GrantWish, checked_grant
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_grant import find_grant
from cortex_plane.operations.find_template import not_found
from cortex_plane.operations.names import checked_readable_name
from cortex_plane.operations.schedule_terms import checked_terms
from cortex_plane.operations.slot_jobs import slot_jobs
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store


@dataclass(frozen=True, slots=True)
class ScheduleWish:
    """What a caller asks for. Without a grant, one is made that allows exactly the target. `held` are the scopes that the
    caller holds; None for an operator, who holds all."""

    name: str
    terms: ScheduleTerms
    tenant: str = DEFAULT_TENANT
    grant: str | None = None
    billing_account: str = DEFAULT_ACCOUNT
    grant_expires_at: datetime | None = None
    grant_max_uses: int | None = None
    owner_id: str | None = None
    created_by: str | None = None
    held: Sequence[str] | None = None
    source: Source = "operator"


async def add_schedule(store: Store, directory: Directory, clock: Clock, new_id: NewId, wish: ScheduleWish) -> Schedule:
    now = as_datetime(clock.now())
    name = checked_readable_name(wish.name)
    tenant_id = await directory.tenant(checked_readable_name(wish.tenant, "tenant"))
    terms = checked_terms(wish.terms, now)
    if wish.held is not None:
        check_within([scope_of(terms.graph_id)], wish.held)
    await check_target_exists(store, directory, tenant_id, terms.graph_id)
    grant_id, grant, entries = await _grant(store, directory, clock, new_id, wish, tenant_id)
    schedule = Schedule(
        id=ScheduleId(new_id()),
        tenant_id=tenant_id,
        name=name,
        grant_id=grant_id,
        terms=terms,
        source=wish.source,
        owner_id=wish.owner_id,
        created_by=wish.created_by,
    )
    schedule = standing_at(schedule, first_slot(terms, now))
    make_job = await slot_jobs(store, directory, new_id)
    await store.schedules.add(schedule, grant, make_job, [*entries, _entry(schedule)])
    added = await store.schedules.get(schedule.id)
    assert added is not None
    return added


async def check_target_exists(store: Store, directory: Directory, tenant_id: TenantId, graph_id: str) -> None:
    """Raises UnknownAgent or TemplateNotFound, with what was perhaps meant. A graph is an agent of that name."""
    if graph_id.startswith(TEMPLATE_TARGET):
        name = graph_id.removeprefix(TEMPLATE_TARGET)
        if await store.templates.get(tenant_id, name) is None:
            raise await not_found(store, tenant_id, name)
    else:
        await directory.agent(graph_id.removeprefix(AGENT_TARGET))


async def _grant(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, wish: ScheduleWish, tenant_id: TenantId
) -> tuple[GrantId, NewGrant | None, list[AuditEntry]]:
    graph_id = wish.terms.graph_id
    if wish.grant is not None:
        await check_grant(store, clock, wish.grant, tenant_id, graph_id)
        return (await find_grant(store, wish.grant)).id, None, []
    asked = GrantWish(
        scopes=[scope_of(graph_id)],
        tenant=wish.tenant,
        billing_account=wish.billing_account,
        expires_at=wish.grant_expires_at,
        max_uses=wish.grant_max_uses,
        user_account_id=wish.owner_id,
        created_by=wish.created_by,
    )
    grant, entry = await checked_grant(store, directory, clock, new_id, asked)
    return grant.id, grant, [entry]


async def check_grant(store: Store, clock: Clock, grant_id: str, tenant_id: TenantId, graph_id: str) -> None:
    """Raises GrantNotFound or GrantRefused, or Denied for a grant of another tenant."""
    grant = await find_grant(store, grant_id)
    if grant.tenant_id != tenant_id:
        raise Denied(f'Grant {grant.id} belongs to tenant "{grant.tenant}", and the schedule to another.')
    if problem := problem_with(grant, as_datetime(clock.now()), graph_id):
        raise problem


def _entry(schedule: Schedule) -> AuditEntry:
    terms = schedule.terms
    details = {"name": schedule.name, "target": terms.graph_id, "cron": terms.cron, "timezone": terms.timezone}
    return AuditEntry(
        "SCHEDULE_ADDED",
        "schedule",
        schedule.id,
        schedule.created_by,
        tenant_id=schedule.tenant_id,
        details={**details, "grant_id": schedule.grant_id},
    )
