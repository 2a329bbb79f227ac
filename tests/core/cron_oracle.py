"""When a cron rule is due, by looking at every minute of ten years. Slow, plain, and without a line of core/cron.

A zone is written down minute by minute of real time: five strings of bytes say what its clocks show (minute, hour, day,
month, weekday), a sixth whether they show it for the first time. A rule is then five look-ups in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
DAY_MINUTES = DAY // MINUTE
ONE = re.compile(b"\x01")

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MACROS = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}


@dataclass(frozen=True)
class Rule:
    """The sets of a rule, as the table of minutes needs them."""

    fields: tuple[frozenset[int], ...]
    either_day: bool
    fixed: bool

    def fits(self, shown: datetime) -> bool:
        minute, hour, day, month, weekday = self.fields
        by_day, by_weekday = shown.day in day, shown.isoweekday() % 7 in weekday
        dated = (by_day or by_weekday) if self.either_day else (by_day and by_weekday)
        return dated and shown.month in month and shown.hour in hour and shown.minute in minute


def read(text: str) -> Rule:
    minute, hour, day, month, weekday = MACROS.get(text, text).lower().split()
    return Rule(
        (
            _set(minute, 0, 59),
            _set(hour, 0, 23),
            _set(day, 1, 31),
            _set(month, 1, 12, MONTHS),
            frozenset(value % 7 for value in _set(weekday, 0, 6, WEEKDAYS)),
        ),
        either_day=day[0] != "*" and weekday[0] != "*",
        fixed=re.fullmatch(r"[\d,]+ [\d,]+", f"{minute} {hour}") is not None,
    )


def _set(text: str, least: int, most: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            low, high = least, most
        else:
            ends = [names.index(word) if word in names else int(word) for word in span.split("-")]
            low, high = ends[0], most if step and len(ends) == 1 else ends[-1]
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)


class Minutes:
    """What the clocks of a zone show at every minute from `start` to `end`.

    `grain` saves time: the clocks are looked at only every so many minutes, and between two looks run evenly.
    """

    def __init__(self, zone: ZoneInfo, start: datetime, end: datetime, grain: int = 15) -> None:
        self.start, self.end = start, end
        looks = _looks(zone, start, end, grain)
        self.columns = _columns(looks, grain)
        self.changes = [start + n * grain * MINUTE for n in range(1, len(looks)) if looks[n] != looks[n - 1] + 1]
        first_shown, skipped = _first_shown(looks)
        self.first_shown = _spread(first_shown, grain)
        days = {look * grain // DAY_MINUTES for look in looks}
        # A date that the clocks skip as a whole has no slots.
        self.skipped = {
            look * grain: [_moment(one * grain + n) for one in ones for n in range(grain) if one * grain // DAY_MINUTES in days]
            for look, ones in skipped
        }

    def slots(self, rule: Rule) -> list[datetime]:
        return self.slots_in(rule, [(self.start, self.end)])[0]

    def slots_in(self, rule: Rule, windows: list[tuple[datetime, datetime]]) -> list[list[datetime]]:
        fitting = self._fitting(rule)
        return [self._slots(rule, fitting, *window) for window in windows]

    def _slots(self, rule: Rule, fitting: bytes, first: datetime, last: datetime) -> list[datetime]:
        start, end = (first - self.start) // MINUTE, (last - self.start) // MINUTE
        found = {hit.start() for hit in ONE.finditer(fitting, start, end)}
        if rule.fixed:
            skipped = {position: moments for position, moments in self.skipped.items() if start <= position < end}
            found |= {position for position, moments in skipped.items() if any(map(rule.fits, moments))}
        return [self.start + position * MINUTE for position in sorted(found)]

    def _fitting(self, rule: Rule) -> bytes:
        """One byte for each minute: 1 where the rule is due."""
        minute, hour, day, month, weekday = (
            int.from_bytes(column.translate(bytes(value in allowed for value in range(256))))
            for column, allowed in zip(self.columns, rule.fields, strict=True)
        )
        fitting = minute & hour & month & ((day | weekday) if rule.either_day else (day & weekday))
        if rule.fixed:
            fitting &= int.from_bytes(self.first_shown)
        return fitting.to_bytes(len(self.first_shown))


def _looks(zone: ZoneInfo, start: datetime, end: datetime, grain: int) -> list[int]:
    """What the clocks show at each look, counted in grains since 1970."""
    looks, at, before = [], start, _offset(zone, start)
    while at < end:
        offset = _offset(zone, at)
        assert offset % grain == 0, f"{zone} needs a finer grain"
        assert offset == before or _offset(zone, at - MINUTE) == before, f"{zone} needs a finer grain at {at}"
        looks.append(((at - EPOCH) // MINUTE + offset) // grain)
        at, before = at + grain * MINUTE, offset
    return looks


def _offset(zone: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return offset // MINUTE


def _columns(looks: list[int], grain: int) -> tuple[bytes, ...]:
    """Minute, hour, day, month and weekday, one byte each for every minute."""
    shown = [divmod(look * grain, DAY_MINUTES) for look in looks]
    dates = {day: (EPOCH + day * DAY).date() for day, _ in shown}
    minutes = bytearray(len(looks) * grain)
    for n in range(grain):
        minutes[n::grain] = bytes([minute % 60 + n for _, minute in shown])
    return (
        bytes(minutes),
        _spread(bytes([minute // 60 for _, minute in shown]), grain),
        _spread(bytes([dates[day].day for day, _ in shown]), grain),
        _spread(bytes([dates[day].month for day, _ in shown]), grain),
        _spread(bytes([dates[day].isoweekday() % 7 for day, _ in shown]), grain),
    )


def _first_shown(looks: list[int]) -> tuple[bytes, list[tuple[int, list[int]]]]:
    """Whether each look is shown for the first time, and what was skipped before which."""
    first, skipped, latest = bytearray(len(looks)), [], looks[0] - 1
    for n, look in enumerate(looks):
        first[n] = look > latest
        if look > latest + 1:
            skipped.append((n, list(range(latest + 1, look))))
        latest = max(latest, look)
    return bytes(first), skipped


def _spread(column: bytes, grain: int) -> bytes:
    """Every byte `grain` times."""
    spread = bytearray(len(column) * grain)
    for n in range(grain):
        spread[n::grain] = column
    return bytes(spread)


def _moment(minutes: int) -> datetime:
    return EPOCH + minutes * MINUTE
