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

# A time outside this range is probably a mix-up of seconds and milliseconds.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def instant(moment: datetime) -> Instant:
    """A datetime without a time zone is interpreted as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Instant((aware - EPOCH) // _MICROSECOND)


def as_datetime(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at)


def as_text(at: int) -> str:
    """ISO 8601, in UTC, to the microsecond."""
    seconds, rest = divmod(at, SECOND)
    return f"{_second(seconds)}.{rest:06d}+00:00"


def as_short_text(at: int) -> str:
    """Like `as_text`, but with Z: shorter, for values that are stored often."""
    return f"{as_text(at)[:-6]}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


def after(at: Instant, seconds: float) -> Instant:
    return Instant(at + round(seconds * SECOND))


# -- clock -------------------------------------------------------------------------------------
# Time and randomness are passed in, so that tests control them.


class Clock(Protocol):
    def now(self) -> Instant:
        """The time of day. Stores without a clock (SQLite) use it."""

    def elapsed(self) -> float:
        """Seconds on a monotonic clock that includes the time during which the machine is suspended."""

    async def sleep(self, seconds: float) -> None: ...


Random = Callable[[], float]
"""A number from 0 to 1."""


# -- system ------------------------------------------------------------------------------------
# The system clock.


# Includes time in suspend, where the system has such a clock.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)

    def elapsed(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def utc_now() -> datetime:
    """The system time, for display only. Decisions use the time of the store."""
    return as_datetime(SystemClock().now())
