"""How much a worker claims ahead: what it would consume in a tenth of a second, and nothing where agents are slow."""

from __future__ import annotations

from cortex_plane.ports.clock import Clock

AHEAD_SECONDS = 0.1
SLOW_SECONDS = 0.05
MEMORY_SECONDS = 0.5
MOST_AHEAD = 1_000


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.elapsed()
        self._ended = 0
        self._rate = 0.0
        self._mean_seconds: dict[str, float] = {}

    def ran(self, job_type: str, seconds: float) -> None:
        self._ended += 1
        before = self._mean_seconds.get(job_type, seconds)
        self._mean_seconds[job_type] = before + 0.1 * (seconds - before)

    def ahead(self) -> int:
        self._measure()
        if any(mean > SLOW_SECONDS for mean in self._mean_seconds.values()):
            return 0
        return min(MOST_AHEAD, int(self._rate * AHEAD_SECONDS))

    def _measure(self) -> None:
        """The rate of late; an idle spell forgets it, so that the first claim after it is small again."""
        passed = self._clock.elapsed() - self._since
        if passed < 0.01:
            return
        weight = min(1.0, passed / MEMORY_SECONDS)
        self._rate += weight * (self._ended / passed - self._rate)
        self._since += passed
        self._ended = 0
