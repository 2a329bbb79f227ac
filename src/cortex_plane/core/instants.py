"""Instants are whole microseconds since 1970 in UTC; people see datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

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
