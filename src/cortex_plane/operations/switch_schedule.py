"""Pauses a schedule, and lets it go on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from cortex_plane.core.schedules import Schedule, Slot
from cortex_plane.operations.add_schedule import check_grant
from cortex_plane.operations.change_schedule import apply, at_next, entry_of
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store


async def pause_schedule(
    store: Store, directory: Directory, new_id: NewId, schedule: Schedule, *, actor: str | None = None, reason: str | None = None
) -> Schedule:
    """Who paused it first keeps the word. A slot that runs goes on; the one that waits is taken out of the queue."""

    def paused(before: Schedule, last: Slot | None, now: datetime) -> Schedule:
        if not before.enabled:
            return before
        return replace(before, enabled=False, paused_by=actor, paused_at=now, pause_reason=reason, next_run_at=None)

    return await apply(store, directory, new_id, schedule, paused, entry_of("SCHEDULE_PAUSED", schedule, actor, reason))


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
