"""Slots that somebody asks for: one now, or those of a range that has passed. They run as any slot does, charges included."""

from __future__ import annotations

from datetime import datetime

from cortex_plane.core.cron import parse, slots_between, time_zone
from cortex_plane.core.errors import Conflict, InvalidInput
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.schedules import Schedule, Slot
from cortex_plane.core.slots import utc
from cortex_plane.operations.add_schedule import check_grant
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.slot_jobs import slot_jobs
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store

MOST_AT_ONCE = 1000


async def trigger_schedule(store: Store, directory: Directory, clock: Clock, new_id: NewId, schedule: Schedule) -> Slot:
    """A slot of this moment, also of a schedule that is paused. Under `forbid` it waits for the one that runs."""
    await check_grant(store, clock, schedule.grant_id, schedule.tenant_id, schedule.terms.graph_id)
    make_job = await slot_jobs(store, directory, new_id)
    asked = await store.slots.ask_for(schedule.id, [as_datetime(clock.now())], "manual", make_job)
    if not asked:
        raise Conflict(f'Schedule "{schedule.name}" has a slot of this very moment already. Try again.')
    return asked[0]


async def backfill_schedule(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, schedule: Schedule, start: datetime, end: datetime
) -> list[Slot]:
    """The slots from `start` on and before `end` that have passed and did not run; returns those that now will."""
    moments = _moments(schedule, utc(start), min(utc(end), as_datetime(clock.now())))
    await check_grant(store, clock, schedule.grant_id, schedule.tenant_id, schedule.terms.graph_id)
    make_job = await slot_jobs(store, directory, new_id)
    return await store.slots.ask_for(schedule.id, moments, "backfill", make_job)


def _moments(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    if start >= end:
        raise InvalidInput("The range must begin before it ends, and lie in the past.", field="start")
    rule, zone = parse(schedule.terms.cron), time_zone(schedule.terms.timezone)
    moments = slots_between(rule, zone, start, end, MOST_AT_ONCE + 1)
    if len(moments) > MOST_AT_ONCE:
        raise InvalidInput(f"The range holds more than {MOST_AT_ONCE:,} slots. Ask for a shorter one.", field="end")
    return moments
