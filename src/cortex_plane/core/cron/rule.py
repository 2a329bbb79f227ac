"""What a cron rule says, and the wall-clock minutes that fit it. Nothing here knows of time zones.

The day of the month and the weekday: if both are restricted, a day that fits either of them fits, as in Vixie's cron.
`0 0 1 * 1` is the 1st and every Monday. A field that begins with a star (`*`, `*/2`) does not restrict in this sense:
`0 0 */2 * 1` is the Mondays among the odd days.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta
from typing import Literal

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
