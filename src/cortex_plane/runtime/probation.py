"""A job that may have killed a worker gets no younger company for a while: if it kills again, it is known by that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortex_plane.core.jobs import Claimed, RunId
from cortex_plane.ports.clock import Clock

PROBATION_SECONDS = 5.0


class Probation:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._suspect: tuple[RunId, float] | None = None

    def watch(self, claimed: Sequence[Claimed]) -> None:
        for job in claimed:
            if job.suspected:
                self._suspect = (job.run_id, self._clock.elapsed() + PROBATION_SECONDS)

    def seconds_left(self, still_here: Callable[[RunId], bool]) -> float:
        """How long to claim nothing because of it."""
        if self._suspect is None:
            return 0.0
        run_id, until = self._suspect
        left = until - self._clock.elapsed()
        if left <= 0 or not still_here(run_id):
            self._suspect = None
            return 0.0
        return left
