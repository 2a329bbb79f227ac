"""Instants are whole microseconds since 1970 in UTC; people see datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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


def after(at: Instant, seconds: float) -> Instant:
    return Instant(at + round(seconds * SECOND))
