"""Repairs schedules and jobs that nothing else would continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.schedules.cron import zone_data_version
from cortex_plane.schedules.terms import slot_jobs
from cortex_plane.worker.rescue import repair_some

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.clock import Random
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

BATCH = 200


async def mend_schedules(store: Store, directory: Directory, new_id: NewId, zone_data: str | None = None) -> int:
    """Returns how many chains and slots were mended. Any number may do so at once."""
    make_job = await slot_jobs(store, directory, new_id)
    release = zone_data or zone_data_version()
    mended, last, newest = 0, None, None
    while broken := await store.schedules.broken(release, last, BATCH):
        mended += sum([await store.schedules.mend(schedule_id, release, make_job) for schedule_id in broken])
        last = broken[-1]
    while stuck := await store.slots.stuck(newest, BATCH):
        mended += sum([await store.slots.look_again(slot_id, make_job) for slot_id in stuck])
        newest = stuck[-1]
    return mended


# -- reconciler --------------------------------------------------------------------------------
# Repairs jobs and schedules that are stuck: jobs every ten seconds, schedules every five minutes. One worker does it for all.


EVERY_SECONDS = 300.0
AFTER_A_START_SECONDS = 10.0
REST_SECONDS = 60.0
"""Shorter than the interval: the worker that had the turn may be gone."""
JOBS_EVERY_SECONDS = 10.0


class Reconciler:
    """Of the schedules."""

    def __init__(self, store: Store, directory: Directory, new_id: NewId) -> None:
        self._store, self._directory, self._new_id = store, directory, new_id
        self._not_before = AFTER_A_START_SECONDS

    async def once(self) -> float:
        if await self._store.schedules.take_turn(self._not_before):
            await mend_schedules(self._store, self._directory, self._new_id)
        self._not_before = EVERY_SECONDS
        return REST_SECONDS


class JobReconciler:
    """Repairs jobs that are RUNNING without a worker. Reads one page of jobs each time, so that the cost is bounded."""

    def __init__(self, store: Store, new_id: NewId, random: Random) -> None:
        self._store, self._new_id, self._random = store, new_id, random

    async def once(self) -> float:
        await repair_some(self._store, self._new_id, self._random, JOBS_EVERY_SECONDS * 0.7)
        return JOBS_EVERY_SECONDS
