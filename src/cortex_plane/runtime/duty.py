"""A loop with one duty, repeated for ever: whatever happens, it goes on, and says when it last went well."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from cortex_plane.ports.clock import Clock
from cortex_plane.runtime.waiting import wait_at_most

log = structlog.get_logger()

LIMIT_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(slots=True)
class Duty:
    """`once` does the work and returns how many seconds may pass before the next time."""

    name: str
    once: Callable[[], Awaitable[float]]
    clock: Clock
    last_ok_at: float | None = None
    began_at: float | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self._wake.set()

    def seconds_since_good(self) -> float:
        """Since it last went well, or since it began if it never did; 0 before that."""
        last = self.last_ok_at if self.last_ok_at is not None else self.began_at
        return 0.0 if last is None else self.clock.elapsed() - last

    async def run_for_ever(self) -> None:
        self.began_at = self.clock.elapsed()
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                self._wake.clear()
                async with asyncio.timeout(LIMIT_SECONDS):
                    wait = await self.once()
                self.last_ok_at = self.clock.elapsed()
                pause = FIRST_PAUSE_SECONDS
            except Exception as error:
                log.warning("duty_failed", duty=self.name, error=f"{type(error).__name__}: {error}", pause_seconds=pause)
                wait, pause = pause, min(pause * 2, LONGEST_PAUSE_SECONDS)
            await wait_at_most(self._wake, wait * random.uniform(0.8, 1.0))
