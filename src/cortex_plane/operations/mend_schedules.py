"""Repairs what a crash, a cancelled job or new time-zone data has done to schedules: every chain goes on, every slot ends."""

from __future__ import annotations

from cortex_plane.core.cron import zone_data_version
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.slot_jobs import slot_jobs
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store

BATCH = 200
LOST = "The job that looked after this slot ended before its run did. To see why: cortex jobs list --agent cortex.slot"


async def mend_schedules(store: Store, directory: Directory, new_id: NewId, zone_data: str | None = None) -> int:
    """Returns how many chains and slots were mended. Any number may do so at once."""
    make_job = await slot_jobs(store, directory, new_id)
    release = zone_data or zone_data_version()
    mended, last, newest = 0, None, None
    while broken := await store.schedules.broken(release, last, BATCH):
        mended += sum([await store.schedules.mend(schedule_id, release, make_job) for schedule_id in broken])
        last = broken[-1]
    while stuck := await store.slots.stuck(newest, BATCH):
        mended += sum([await store.slots.end(slot_id, "error", "slot_lost", LOST, make_job) for slot_id in stuck])
        newest = stuck[-1]
    return mended
