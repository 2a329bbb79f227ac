"""Claims whose answer was lost: they may have been committed before that, and may still be, by a server that is slow or out of
reach. So their runs are looked for, at once and again for a while."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.core.errors import Unavailable
from cortex_plane.core.jobs import Claimed, RunId, WorkerId
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store

LATE_SECONDS = 120.0
PAUSE_SECONDS = 0.2


class LateClaims:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._unanswered: list[tuple[float, Sequence[RunId]]] = []

    async def adopt(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """Those that are the worker's now, as soon as the database can be asked."""
        while True:
            try:
                found = await self._store.queue.open_runs(worker_id, run_ids)
            except Unavailable:
                await self._clock.sleep(PAUSE_SECONDS)
            else:
                self._unanswered.append((self._clock.elapsed() + LATE_SECONDS, run_ids))
                return found

    async def look(self, worker_id: WorkerId) -> list[Claimed]:
        """All that the worker holds of them, also what it knows."""
        now = self._clock.elapsed()
        self._unanswered = [(until, run_ids) for until, run_ids in self._unanswered if until > now]
        return [claimed for _, run_ids in self._unanswered for claimed in await self._store.queue.open_runs(worker_id, run_ids)]

    def forget(self) -> None:
        self._unanswered.clear()
