"""Removes a schedule and the record of its slots. A run that it started goes on; so do its grant and what was charged."""

from __future__ import annotations

from cortex_plane.core.schedules import Schedule
from cortex_plane.operations.change_schedule import entry_of, just_removed
from cortex_plane.ports.store import Store


async def remove_schedule(store: Store, schedule: Schedule, *, actor: str | None = None) -> None:
    if not await store.schedules.remove(schedule.id, entry_of("SCHEDULE_REMOVED", schedule, actor)):
        raise just_removed(schedule)
