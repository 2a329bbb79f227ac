"""Looks through the schedules when a worker starts and every five minutes after; of many workers one does it."""

from __future__ import annotations

from cortex_plane.operations.directory import Directory
from cortex_plane.operations.mend_schedules import mend_schedules
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store

EVERY_SECONDS = 300.0
AFTER_A_START_SECONDS = 10.0
REST_SECONDS = 60.0
"""Shorter than the time between two looks: whoever had the turn may be gone."""


class Reconciler:
    def __init__(self, store: Store, directory: Directory, new_id: NewId) -> None:
        self._store, self._directory, self._new_id = store, directory, new_id
        self._not_before = AFTER_A_START_SECONDS

    async def once(self) -> float:
        if await self._store.schedules.take_turn(self._not_before):
            await mend_schedules(self._store, self._directory, self._new_id)
        self._not_before = EVERY_SECONDS
        return REST_SECONDS
