"""Time: instants in microseconds, the clock protocol, and the clock of the system."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType, Protocol

Instant = NewType("Instant", int)

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# Outside of these, somebody has mixed up seconds and milliseconds.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def instant(moment: datetime) -> Instant:
    """A datetime without a zone is taken to be in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Instant((aware - EPOCH) // _MICROSECOND)


def as_datetime(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at)


def as_text(at: int) -> str:
    """ISO 8601, in UTC, to the microsecond."""
    seconds, rest = divmod(at, SECOND)
    return f"{_second(seconds)}.{rest:06d}+00:00"


def as_short_text(at: int) -> str:
    """The same in fewer characters, for what is written again and again."""
    return f"{as_text(at)[:-6]}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


def after(at: Instant, seconds: float) -> Instant:
    return Instant(at + round(seconds * SECOND))


# -- clock -------------------------------------------------------------------------------------
# Time and chance, passed in, so that a test turns the one and fixes the other.


class Clock(Protocol):
    def now(self) -> Instant:
        """The time of day, for stores that have no clock of their own."""

    def elapsed(self) -> float:
        """Seconds on a clock that only goes forward and goes on while the machine sleeps."""

    async def sleep(self, seconds: float) -> None: ...


Random = Callable[[], float]
"""A number from 0 to 1."""


# -- system ------------------------------------------------------------------------------------
# The machine's own clock, and fresh ids.


# Goes on while the machine sleeps, where the system has such a clock.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)

    def elapsed(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def utc_now() -> datetime:
    """For what is shown to people; decisions take their time from the store."""
    return as_datetime(SystemClock().now())
