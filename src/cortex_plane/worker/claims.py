"""Prefetch, free slots of other workers, and claims whose answer was lost.

Claims whose answer was lost: they may have been committed before that, and may still be, by a server that is slow or out of
reach. So their runs are looked for, at once and again for a while. Each run is handed out once: an answer that was read while it
was open may come when it has long ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cortex_plane.errors import Unavailable

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.jobs.model import Claimed, RunId, WorkerId
    from cortex_plane.stores import Store
    from cortex_plane.worker.slots import SlotPool

LATE_SECONDS = 120.0
PAUSE_SECONDS = 0.2


class LateClaims:
    """Of one worker session: a worker that lost its lease starts a new session with another id."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._unanswered: list[tuple[float, Sequence[RunId]]] = []
        self._handed_out: set[RunId] = set()

    async def adopt(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """The runs that the worker holds, as soon as the database answers."""
        while True:
            try:
                found = await self._store.queue.open_runs(worker_id, run_ids)
            except Unavailable:
                await self._clock.sleep(PAUSE_SECONDS)
            else:
                self._unanswered.append((self._clock.elapsed() + LATE_SECONDS, run_ids))
                return self._new_of(found)

    async def look(self, worker_id: WorkerId) -> list[Claimed]:
        """Runs claimed since the last check."""
        now = self._clock.elapsed()
        self._unanswered = [(until, run_ids) for until, run_ids in self._unanswered if until > now]
        if not self._unanswered:
            self._handed_out.clear()
        return [
            claimed
            for _, run_ids in self._unanswered
            for claimed in self._new_of(await self._store.queue.open_runs(worker_id, run_ids))
        ]

    def _new_of(self, found: Sequence[Claimed]) -> list[Claimed]:
        new = [claimed for claimed in found if claimed.run_id not in self._handed_out]
        self._handed_out.update(claimed.run_id for claimed in new)
        return new


# -- pace --------------------------------------------------------------------------------------
# The prefetch limit: what the worker would consume in a tenth of a second, only for agents that are known to be quick.
#
# A few large claims cost less than many small ones, so it claims again at a low-water mark.


AHEAD_SECONDS = 0.1
LITTLE_SECONDS = 0.03
"""Longer than a claim takes."""
SLOW_SECONDS = 0.05
WINDOW_SECONDS = 0.025
FORGET_SECONDS = 1.0
MOST_AHEAD = 1_000
QUICK_RUNS = 3
"""The number of recent runs that must have been quick."""


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_began_at = clock.elapsed()
        self._ended = 0
        self._rate = 0.0
        self._slow_at = -FORGET_SECONDS
        self._quick_runs: dict[str, int] = {}

    def ran(self, job_type: str, seconds: float) -> None:
        """Records the duration of one handler."""
        self._ended += 1
        if seconds > SLOW_SECONDS:
            self._slow_at = self._clock.elapsed()
            self._quick_runs[job_type] = 0
        else:
            self._quick_runs[job_type] = self._quick_runs.get(job_type, 0) + 1

    def knows_as_quick(self, job_types: Iterable[str]) -> bool:
        return all(self._quick_runs.get(job_type, 0) >= QUICK_RUNS for job_type in job_types)

    def ahead(self) -> int:
        self._measure()
        if self._clock.elapsed() - self._slow_at < FORGET_SECONDS:
            return 0
        return min(MOST_AHEAD, int(self._rate * AHEAD_SECONDS))

    def little(self) -> int:
        return int(self._rate * LITTLE_SECONDS)

    def _measure(self) -> None:
        """The recent rate; after an idle period it is small, and so is the first claim."""
        passed = self._clock.elapsed() - self._window_began_at
        if passed >= WINDOW_SECONDS:
            self._rate = self._ended / passed
            self._window_began_at += passed
            self._ended = 0


# -- neighbours --------------------------------------------------------------------------------
# Free slots of other workers, so that no worker prefetches jobs that an idle one could run at once.
#
# A worker that finds nothing to claim, and still has a free slot a moment later, says so in its row. It takes that back
# only when
# it is busy for a while, so a job now and then writes nothing.


SETTLED_SECONDS = 0.1
"""After this time idle or busy, the state is published."""
LOOK_SECONDS = 0.1


class Neighbours:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._told: tuple[WorkerId, bool] | None = None
        self._looked_at = -LOOK_SECONDS
        self._seen: list[tuple[frozenset[str], frozenset[str]]] = []

    async def have_room(self, worker_id: WorkerId, pool: SlotPool) -> bool:
        """Whether another worker has a free slot for jobs of this pool. For a worker that is busy enough to claim ahead."""
        if self._told == (worker_id, True):
            await self._write(worker_id, False)
        if self._clock.elapsed() - self._looked_at >= LOOK_SECONDS:
            try:
                self._seen = await self._store.workers.with_room(worker_id)
            except Unavailable:
                return True
            self._looked_at = self._clock.elapsed()
        return any(queues & set(pool.queues) and job_types & set(pool.job_types) for queues, job_types in self._seen)

    def to_be_told(self, worker_id: WorkerId, pool: SlotPool) -> bool:
        """Whether the published state is out of date."""
        return (worker_id, pool.free > 0) != (self._told or (worker_id, False))

    async def tell(self, worker_id: WorkerId, pool: SlotPool) -> None:
        if self.to_be_told(worker_id, pool):
            await self._write(worker_id, pool.free > 0)

    async def _write(self, worker_id: WorkerId, has_room: bool) -> None:
        """Best effort: a database error is not retried."""
        try:
            told = await self._store.workers.tell_room(worker_id, has_room)
        except Exception:
            return
        if told:
            self._told = worker_id, has_room
