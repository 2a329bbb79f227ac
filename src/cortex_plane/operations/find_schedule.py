"""Finds a schedule by its name, or by its id; a name that is nearly right is answered with the right one."""

from __future__ import annotations

from cortex_plane.core.jobs import DEFAULT_TENANT
from cortex_plane.core.schedules import Schedule, ScheduleNotFound
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store


async def find_schedule(store: Store, directory: Directory, name_or_id: str, *, tenant: str = DEFAULT_TENANT) -> Schedule:
    tenant_id = await directory.tenant(tenant)
    found = await store.schedules.find(tenant_id, name_or_id)
    if found is not None:
        return found
    known = await store.schedules.list(tenant_id)
    for schedule in known:
        if schedule.id == name_or_id.strip().lower():
            return schedule
    raise ScheduleNotFound(name_or_id, [schedule.name for schedule in known])
