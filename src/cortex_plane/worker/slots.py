"""A worker's slots for one kind of work, users' jobs or the plane's own, and the jobs claimed for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cortex_plane.worker.claims import SLOW_SECONDS, Pace

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.jobs.model import Claimed, RunId

LARGEST_CLAIM = 500
SMALLEST_CLAIM = 20
INTERNAL_REST_SECONDS = 0.02
"""On SQLite every commit wakes every claiming loop; this limits how often the plane's own work is looked for."""
GIVE_WAY_SECONDS = 1.0
EARLIER_SECONDS = 0.2
"""The database's clock decides when a job is due, this one when to yield."""
LONGEST_WAIT_SECONDS = 0.2
"""A prefetched job that gets no slot in this time is handed back: it counts as RUNNING, and no other worker can run it."""


class SlotPool:
    def __init__(
        self, queues: tuple[str, ...], job_types: tuple[str, ...], slots: int, clock: Clock, pace: Pace | None = None
    ) -> None:
        """Without a pace nothing is prefetched."""
        self.queues, self.job_types, self.slots = queues, job_types, slots
        self.rest_seconds = INTERNAL_REST_SECONDS if pace is None else 0.0
        self.running = 0
        self.wake = asyncio.Event()
        self.claim_error: str | None = None
        """The error of the last claim, if it failed."""
        self.claim_pause_seconds = 0.0
        self._gives_way: dict[str, list[tuple[float, float]]] = {}
        self._clock, self._pace = clock, pace
        self._waiting: deque[tuple[float, Claimed]] = deque()
        """Claimed jobs that wait for a slot, with the start of the wait."""
        self._handlers: dict[RunId, tuple[float, str]] = {}
        """Start time and agent of each handler until it returns. The slot may be occupied for longer."""
        self._batch_size = SMALLEST_CLAIM  # A short claim has a short answer; one that is filled is followed by large ones.
        self._found_nothing = False

    # -- how much to claim -------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """Slots without a claimed job."""
        return max(0, self.slots - self.running - len(self._waiting))

    def room(self) -> int:
        """How many jobs to claim now, without regard to other workers."""
        little = 0 if self._pace is None else self._pace.little()
        if self._waiting and (self._found_nothing or len(self._waiting) > little):
            return 0
        return min(self._batch_size, self.slots + self._ahead() - self.running - len(self._waiting))

    def _ahead(self) -> int:
        """No prefetch while any handler here is slow, or may be: a prefetched job might wait for its slot for long."""
        ahead = 0 if self._pace is None else self._pace.ahead()
        if ahead == 0 or self._pace is None:
            return 0
        long_ago = self._clock.elapsed() - SLOW_SECONDS
        if any(called_at < long_ago for called_at, _ in self._handlers.values()):
            return 0
        job_types = {job_type for _, job_type in self._handlers.values()} | {claimed.job_type for _, claimed in self._waiting}
        return ahead if self._pace.knows_as_quick(job_types) else 0

    def give_way(self, job_type: str, due: float) -> float:
        """Jobs of this agent are due then that do not fit this worker's code: others claim first. A worker that only hands back
        is faster than one that works, and would have them all, time and again. Returns when it is over."""
        begin, end = due - EARLIER_SECONDS, due + GIVE_WAY_SECONDS
        apart = [(since, until) for since, until in self._gives_way.get(job_type, ()) if until < begin or since > end]
        near = [times for times in self._gives_way.get(job_type, ()) if times not in apart]
        begin, end = min([begin, *(since for since, _ in near)]), max([end, *(until for _, until in near)])
        self._gives_way[job_type] = [*apart, (begin, end)]
        return end

    def claimable(self, now: float) -> tuple[str, ...]:
        """The agents to claim for now."""
        if not self._gives_way:
            return self.job_types
        left = {name: [times for times in all_times if now < times[1]] for name, all_times in self._gives_way.items()}
        self._gives_way = {name: all_times for name, all_times in left.items() if all_times}
        waits = {name for name, all_times in self._gives_way.items() if any(since <= now for since, _ in all_times)}
        return tuple(name for name in self.job_types if name not in waits)

    def took(self, claimed: Sequence[Claimed], room: int) -> None:
        """Adds the result of a claim, and sizes the next one."""
        self._batch_size = LARGEST_CLAIM if len(claimed) == room else SMALLEST_CLAIM
        self._found_nothing = not claimed
        self.add(claimed)

    # -- what was claimed and has no slot yet ------------------------------------------------------

    @property
    def backlog(self) -> list[Claimed]:
        return [claimed for _, claimed in self._waiting]

    @property
    def has_backlog(self) -> bool:
        return bool(self._waiting)

    def add(self, claimed: Sequence[Claimed]) -> None:
        now = self._clock.elapsed()
        self._waiting.extend((now, one) for one in claimed)

    def next(self) -> Claimed:
        return self._waiting.popleft()[1]

    def give_up(self, which: Callable[[Claimed], bool] = lambda _: True) -> list[Claimed]:
        """Removes these jobs from the backlog."""
        given_up = [claimed for claimed in self.backlog if which(claimed)]
        self._waiting = deque((since, claimed) for since, claimed in self._waiting if not which(claimed))
        return given_up

    def give_up_late(self) -> list[Claimed]:
        """Removes and returns jobs that have waited too long, oldest first."""
        long_ago, late = self._clock.elapsed() - LONGEST_WAIT_SECONDS, []
        while self._waiting and self._waiting[0][0] <= long_ago:
            late.append(self._waiting.popleft()[1])
        return late

    @property
    def seconds_until_late(self) -> float:
        """The wait of the oldest job."""
        return max(0.0, self._waiting[0][0] + LONGEST_WAIT_SECONDS - self._clock.elapsed())

    # -- what runs ---------------------------------------------------------------------------------

    def called(self, claimed: Claimed) -> None:
        self.running += 1
        self._handlers[claimed.run_id] = (self._clock.elapsed(), claimed.job_type)

    def ran(self, claimed: Claimed, seconds: float) -> None:
        self._handlers.pop(claimed.run_id, None)
        if self._pace is not None:
            self._pace.ran(claimed.job_type, seconds)

    def freed(self, run_id: RunId) -> None:
        self.running -= 1
        self._handlers.pop(run_id, None)

    def forget(self) -> None:
        """The lease is lost, and all runs have been stopped."""
        self.running = 0
        self._handlers.clear()
        self._waiting.clear()
