"""Changes a schedule: what it runs, when, and under which grant. The slot that comes next is reckoned anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import Conflict
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.schedules import Schedule, ScheduleTerms, Slot
from cortex_plane.core.slots import recomputed, standing_at
from cortex_plane.operations.add_schedule import check_grant, check_target_exists
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_grant import find_grant
from cortex_plane.operations.schedule_terms import checked_terms
from cortex_plane.operations.slot_jobs import slot_jobs
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.schedules import Change
from cortex_plane.ports.store import Store


async def change_schedule(
    store: Store,
    directory: Directory,
    clock: Clock,
    new_id: NewId,
    schedule: Schedule,
    terms: ScheduleTerms,
    *,
    grant: str | None = None,
    actor: str | None = None,
) -> Schedule:
    """The grant must allow what the schedule runs from now on."""
    checked = checked_terms(terms, as_datetime(clock.now()))
    await check_target_exists(store, directory, schedule.tenant_id, checked.graph_id)
    await check_grant(store, clock, grant or schedule.grant_id, schedule.tenant_id, checked.graph_id)
    grant_id = schedule.grant_id if grant is None else (await find_grant(store, grant)).id

    def changed(before: Schedule, last: Slot | None, now: datetime) -> Schedule:
        after = replace(before, terms=checked, grant_id=grant_id)
        return before if after == before else at_next(after, last, now)

    return await apply(store, directory, new_id, schedule, changed, entry_of("SCHEDULE_CHANGED", schedule, actor))


async def apply(
    store: Store, directory: Directory, new_id: NewId, schedule: Schedule, change: Change, entry: AuditEntry
) -> Schedule:
    make_job = await slot_jobs(store, directory, new_id)
    await store.schedules.change(schedule.id, change, make_job, entry)
    after = await store.schedules.get(schedule.id)
    if after is None:
        raise just_removed(schedule)
    return after


def at_next(schedule: Schedule, last: Slot | None, now: datetime) -> Schedule:
    return standing_at(schedule, recomputed(schedule, last, now)) if schedule.enabled else schedule


def just_removed(schedule: Schedule) -> Conflict:
    return Conflict(f'Schedule "{schedule.name}" was just removed by somebody else.')


def entry_of(action: str, schedule: Schedule, actor: str | None, reason: str | None = None) -> AuditEntry:
    details = {"name": schedule.name}
    return AuditEntry(action, "schedule", schedule.id, actor, reason, tenant_id=schedule.tenant_id, details=details)
