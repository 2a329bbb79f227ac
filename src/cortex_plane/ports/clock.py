"""Time and chance, passed in, so that a test turns the one and fixes the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cortex_plane.core.instants import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """The time of day, for stores that have no clock of their own."""

    def elapsed(self) -> float:
        """Seconds on a clock that only goes forward and goes on while the machine sleeps."""

    async def sleep(self, seconds: float) -> None: ...


NewId = Callable[[], str]
"""A fresh UUIDv7."""

Random = Callable[[], float]
"""A number from 0 to 1."""
