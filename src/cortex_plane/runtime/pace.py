"""How much a worker claims ahead: what it would consume in a tenth of a second, and nothing where agents are slow.

A few large claims cost less than many small ones, so it claims again only when little is left."""

from __future__ import annotations

from cortex_plane.ports.clock import Clock

AHEAD_SECONDS = 0.1
LITTLE_SECONDS = 0.03
"""Longer than a claim takes."""
SLOW_SECONDS = 0.05
WINDOW_SECONDS = 0.025
FORGET_SECONDS = 1.0
MOST_AHEAD = 1_000


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_began_at = clock.elapsed()
        self._ended = 0
        self._rate = 0.0
        self._slow_at = -FORGET_SECONDS

    def ran(self, seconds: float) -> None:
        """One handler has ended after so long."""
        self._ended += 1
        if seconds > SLOW_SECONDS:
            self._slow_at = self._clock.elapsed()

    def ahead(self) -> int:
        self._measure()
        if self._clock.elapsed() - self._slow_at < FORGET_SECONDS:
            return 0
        return min(MOST_AHEAD, int(self._rate * AHEAD_SECONDS))

    def little(self) -> int:
        return int(self._rate * LITTLE_SECONDS)

    def _measure(self) -> None:
        """The rate of the last moments; after an idle spell it is small, and so is the first claim."""
        passed = self._clock.elapsed() - self._window_began_at
        if passed >= WINDOW_SECONDS:
            self._rate = self._ended / passed
            self._window_began_at += passed
            self._ended = 0
