"""Finds, changes, pauses, resumes and removes schedules."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import Clock, as_datetime
from cortex_plane.errors import Conflict
from cortex_plane.grants.service import find_grant
from cortex_plane.ids import NewId, is_id
from cortex_plane.jobs.model import DEFAULT_TENANT
from cortex_plane.schedules.model import Schedule, ScheduleChanged, ScheduleId, ScheduleNotFound, ScheduleTerms, Slot, revision_of
from cortex_plane.schedules.slots import recomputed, standing_at
from cortex_plane.schedules.terms import check_grant, check_input, check_target_exists, checked_terms, slot_jobs

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.schedules.rows import Change, DueRule
    from cortex_plane.stores import Store


async def find_schedule(
    store: Store, directory: Directory, name_or_id: str, *, tenant: str = DEFAULT_TENANT, removed: bool = False
) -> Schedule:
    """With `removed`, by its id also one that was removed."""
    tenant_id = await directory.tenant(tenant)
    found = await store.schedules.find(tenant_id, name_or_id)
    if found is not None:
        return found
    schedule_id = name_or_id.strip().lower()
    by_id = await store.schedules.get(ScheduleId(schedule_id)) if is_id(schedule_id) else None
    if by_id is not None and by_id.tenant_id == tenant_id and (removed or by_id.removed_at is None):
        return by_id
    raise ScheduleNotFound(name_or_id, [schedule.name for schedule in await store.schedules.list(tenant_id)])


# -- change schedule ---------------------------------------------------------------------------
# Changes a schedule: what it runs, when, and under which grant.
#
# The next slot is computed from the new rule. Slots that were due before the change are settled by the old rule
# (`core.slots.due_at_change`), and those that still run take the new target and input.


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
    revision: str | None = None,
) -> Schedule:
    """The grant must allow what the schedule runs from now on. With a revision, it is changed only if it is still at that one;
    otherwise ScheduleChanged is raised."""
    checked = checked_terms(terms, as_datetime(clock.now()))
    await check_target_exists(store, directory, schedule.tenant_id, checked.graph_id)
    await check_grant(store, clock, grant or schedule.grant_id, schedule.tenant_id, checked.graph_id)
    await check_input(store, directory, schedule.tenant_id, checked)
    grant_id = schedule.grant_id if grant is None else (await find_grant(store, grant)).id

    def changed(before: Schedule, last: Slot | None, now: datetime) -> Schedule:
        if revision is not None and revision != revision_of(before):
            raise ScheduleChanged(before.name, revision_of(before))
        after = replace(before, terms=checked, grant_id=grant_id)
        return after if after == before else at_next(replace(after, changed_by=actor), last, now)

    return await apply(store, directory, new_id, schedule, changed, entry_of("SCHEDULE_CHANGED", schedule, actor))


async def apply(
    store: Store,
    directory: Directory,
    new_id: NewId,
    schedule: Schedule,
    change: Change,
    entry: AuditEntry,
    *,
    due_slots: DueRule = "run",
) -> Schedule:
    make_job = await slot_jobs(store, directory, new_id)
    await store.schedules.change(schedule.id, change, make_job, entry, due_slots)
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


# -- switch schedule ---------------------------------------------------------------------------
# Pauses a schedule, and lets it go on.


async def pause_schedule(
    store: Store,
    directory: Directory,
    new_id: NewId,
    schedule: Schedule,
    *,
    actor: str | None = None,
    reason: str | None = None,
    due_slots: DueRule = "skip",
) -> Schedule:
    """Idempotent: the first actor and reason are kept. A slot that runs goes on; the one that waits is taken out of the queue.
    Slots that are due and have not begun are recorded as skipped (`paused`), or still run with `due_slots="run"`."""

    def paused(before: Schedule, last: Slot | None, now: datetime) -> Schedule:
        if not before.enabled:
            return before
        return replace(before, enabled=False, paused_by=actor, paused_at=now, pause_reason=reason, next_run_at=None)

    entry = entry_of("SCHEDULE_PAUSED", schedule, actor, reason)
    return await apply(store, directory, new_id, schedule, paused, entry, due_slots=due_slots)


async def resume_schedule(
    store: Store,
    directory: Directory,
    clock: Clock,
    new_id: NewId,
    schedule: Schedule,
    *,
    actor: str | None = None,
    reason: str | None = None,
) -> Schedule:
    """From the next slot on: what was due meanwhile was not missed, it was not wanted."""
    await check_grant(store, clock, schedule.grant_id, schedule.tenant_id, schedule.terms.graph_id)

    def resumed(before: Schedule, last: Slot | None, now: datetime) -> Schedule:
        if before.enabled:
            return before
        on = replace(before, enabled=True, paused_by=None, paused_at=None, pause_reason=None, failures=0)
        return at_next(on, last, now)

    return await apply(store, directory, new_id, schedule, resumed, entry_of("SCHEDULE_RESUMED", schedule, actor, reason))


# -- remove schedule ---------------------------------------------------------------------------
# Removes a schedule. The record of its slots stays, under its id. A run that it started goes on; a grant that has served this
# schedule alone is revoked.


async def remove_schedule(store: Store, schedule: Schedule, *, actor: str | None = None) -> None:
    if not await store.schedules.remove(schedule.id, entry_of("SCHEDULE_REMOVED", schedule, actor)):
        raise just_removed(schedule)
