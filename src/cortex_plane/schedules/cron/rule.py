"""Cron rules: which minutes match, the next slots, and jitter.

What a cron rule says, and the wall-clock minutes that fit it. Nothing here knows of time zones.

The day of the month and the weekday: if both are restricted, a day that fits either of them fits, as in Vixie's cron.
`0 0 1 * 1` is the 1st and every Monday. A field that begins with a star (`*`, `*/2`) does not restrict in this sense:
`0 0 */2 * 1` is the Mondays among the odd days.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta
from hashlib import sha256
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

from cortex_plane.clock import instant
from cortex_plane.errors import InvalidInput
from cortex_plane.schedules.cron.zones import change, first_reached, offset, wall_clock

CronKind = Literal["fixed", "interval"]

# 29 February comes every eight years at the least (2096, 2104); on a given weekday, every forty.
HORIZON_YEARS = 50
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five fields: its normal form, and the values that fit it, in order."""

    text: str
    values: tuple[int, ...]

    @property
    def starred(self) -> bool:
        return self.text.startswith("*")

    @property
    def listed(self) -> bool:
        """Plain numbers only: no star, range or step."""
        return self.text.replace(",", "").isdigit()


@dataclass(frozen=True, slots=True)
class CronRule:
    """A checked rule; made by `parse`. Weekdays count from Sunday, which is 0."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    times: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The minutes of a day that fit, counted from midnight."""

    def __post_init__(self) -> None:
        times = tuple(hour * 60 + minute for hour in self.hour.values for minute in self.minute.values)
        object.__setattr__(self, "times", times)

    def __str__(self) -> str:
        return " ".join(part.text for part in (self.minute, self.hour, self.day, self.month, self.weekday))

    @property
    def either_day(self) -> bool:
        return not self.day.starred and not self.weekday.starred

    def fits_date(self, date: date) -> bool:
        return date.month in self.month.values and self.fits_day(date.day, date.isoweekday() % 7)

    def fits_day(self, day: int, weekday: int) -> bool:
        if self.either_day:
            return day in self.day.values or weekday in self.weekday.values
        return day in self.day.values and weekday in self.weekday.values


def kind(rule: CronRule) -> CronKind:
    """`fixed`: times of day, each written out. `interval`: the minute or the hour has a star, a range or a step."""
    return "fixed" if rule.minute.listed and rule.hour.listed else "interval"


def at_or_after(rule: CronRule, moment: datetime) -> datetime | None:
    """The first minute from `moment` on that fits."""
    today = moment.date()
    day = _first_day(rule, today)
    if day == today:
        passed = bisect_left(rule.times, _minutes(moment) + (moment.second > 0 or moment.microsecond > 0))
        if passed < len(rule.times):
            return _at(today, rule.times[passed])
        day = _first_day(rule, today + DAY)
    return None if day is None else _at(day, rule.times[0])


def at_or_before(rule: CronRule, moment: datetime) -> datetime | None:
    """The last minute up to `moment` that fits."""
    today = moment.date()
    day = _last_day(rule, today)
    if day == today:
        begun = bisect_right(rule.times, _minutes(moment))
        if begun:
            return _at(today, rule.times[begun - 1])
        day = _last_day(rule, today - DAY)
    return None if day is None else _at(day, rule.times[-1])


def _first_day(rule: CronRule, start: date) -> date | None:
    if rule.fits_date(start):
        return start
    for year in range(start.year, min(start.year + HORIZON_YEARS, MAXYEAR) + 1):
        for month in rule.month.values:
            if (year, month) < (start.year, start.month):
                continue
            # monthrange counts weekdays from Monday and days from 0; so their sum counts from Sunday.
            before, length = monthrange(year, month)
            begin = start.day if (year, month) == (start.year, start.month) else 1
            for day in range(begin, length + 1):
                if rule.fits_day(day, (before + day) % 7):
                    return date(year, month, day)
    return None


def _last_day(rule: CronRule, end: date) -> date | None:
    if rule.fits_date(end):
        return end
    for year in range(end.year, max(end.year - HORIZON_YEARS, MINYEAR) - 1, -1):
        for month in reversed(rule.month.values):
            if (year, month) > (end.year, end.month):
                continue
            before, length = monthrange(year, month)
            last = end.day if (year, month) == (end.year, end.month) else length
            for day in range(last, 0, -1):
                if rule.fits_day(day, (before + day) % 7):
                    return date(year, month, day)
    return None


def _minutes(moment: datetime) -> int:
    return moment.hour * 60 + moment.minute


def _at(day: date, minutes: int) -> datetime:
    return datetime.combine(day, time(*divmod(minutes, 60)))


# -- jitter ------------------------------------------------------------------------------------
# Spreads schedules that are due at the same minute.


def jitter(schedule_id: str, slot: datetime, seconds: float) -> float:
    """From 0 to `seconds`; the same wherever and however often it is asked for, so that a slot has one time."""
    digest = sha256(f"{schedule_id}:{instant(slot)}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> 11) / 2**53 * seconds


# -- slots -------------------------------------------------------------------------------------
# The instants at which a rule is due, on the wall clock of a zone.
#
# fixed      each time of day once on every date: when the clocks first show it. A time that they skip moves to the first
#            instant after the gap; a time that they show twice counts the first time. A date that they skip has none.
# interval   whenever the clocks show a minute that fits: nothing in a gap, twice where they show it twice.
#
# Time is searched by leaps: first on the calendar, which knows no zone, then in the zone, from one change of the clocks to the
# next. A change moves them by a day at most, and no zone changes them twice within a day.


MOMENT = timedelta(microseconds=1)
HORIZON = timedelta(days=366 * HORIZON_YEARS)


def next_slot(rule: CronRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first slot strictly after; None if there is none for fifty years, or before the calendar ends."""
    try:
        search = _next_fixed if kind(rule) == "fixed" else _next_interval
        return search(rule, zone, _utc(after))
    except OverflowError:
        return None


def previous_slot(rule: CronRule, zone: ZoneInfo, before: datetime) -> datetime | None:
    """The last slot strictly before; None if there was none for fifty years."""
    try:
        search = _previous_fixed if kind(rule) == "fixed" else _previous_interval
        return search(rule, zone, _utc(before))
    except OverflowError:
        return None


def slots_between(rule: CronRule, zone: ZoneInfo, start: datetime, end: datetime, limit: int) -> list[datetime]:
    """The slots from `start` on and before `end`, in order, at most `limit` of them."""
    if limit < 1:
        raise InvalidInput(f"limit must be 1 or more, not {limit}.", field="limit")
    return list(islice(_slots(rule, zone, _utc(start), _utc(end)), limit))


def _slots(rule: CronRule, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    slot = next_slot(rule, zone, start - MOMENT)
    while slot is not None and slot < end:
        yield slot
        slot = next_slot(rule, zone, slot)


def _next_fixed(rule: CronRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    moment = at_or_after(rule, wall_clock(zone, after) + MOMENT)
    while moment is not None:
        slot = first_reached(zone, moment)
        # What the clocks show for the second time was due the first time.
        if slot is not None and slot > after:
            return slot
        moment = at_or_after(rule, moment + MOMENT)
    return None


def _previous_fixed(rule: CronRule, zone: ZoneInfo, before: datetime) -> datetime | None:
    # While the clocks show times for the second time, later ones were already due.
    put_back = offset(zone, before - DAY) - offset(zone, before)
    moment = at_or_before(rule, wall_clock(zone, before) + max(put_back, timedelta()))
    while moment is not None:
        slot = first_reached(zone, moment)
        if slot is not None and slot < before:
            return slot
        moment = at_or_before(rule, moment - MOMENT)
    return None


def _next_interval(rule: CronRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    at, horizon = after + MOMENT, after + HORIZON
    while at < horizon:
        now = offset(zone, at)
        moment = at_or_after(rule, at.replace(tzinfo=None) + now)
        if moment is None:
            return None
        slot = moment.replace(tzinfo=UTC) - now  # If the clocks do not change before.
        near = min(slot, at + DAY)
        if offset(zone, near) != now:
            at = change(zone, at, near)
        elif near == slot:
            return slot
        else:
            # Clocks that are put back from here on show nothing that was not looked at: go close to the slot.
            at = max(near, slot - 2 * DAY)
    return None


def _previous_interval(rule: CronRule, zone: ZoneInfo, before: datetime) -> datetime | None:
    at, horizon = before - MOMENT, before - HORIZON
    while at > horizon:
        now = offset(zone, at)
        moment = at_or_before(rule, at.replace(tzinfo=None) + now)
        if moment is None:
            return None
        slot = moment.replace(tzinfo=UTC) - now
        near = max(slot, at - DAY)
        if offset(zone, near) != now:
            at = change(zone, near, at) - MOMENT
        elif near == slot:
            return slot
        else:
            at = min(near, slot + 2 * DAY)
    return None


def _utc(moment: datetime) -> datetime:
    """A datetime without a zone is taken to be in UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
