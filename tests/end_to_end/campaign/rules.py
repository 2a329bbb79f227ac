"""Schedules of many kinds, and when each of them is due: reckoned minute by minute, without the product's own cron."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Chatham")
OVERLAPS = ("forbid", "allow", "replace")
QUICK, SLOW = "quick", "slow"
SLOW_SECONDS = 75.0
"""Longer than a minute, so that slots of the same schedule meet."""

Due = Callable[[datetime], bool]


@dataclass(frozen=True)
class Rule:
    """`due` says of a minute, as the clocks of the zone show it, whether it is one of the rule's."""

    name: str
    cron: str
    due: Due
    overlap: str
    agent: str = QUICK
    timezone: str = "UTC"
    jitter_seconds: float = 0.0
    missed: str = "skip"
    most_missed: int = 1

    def slots(self, after: datetime, until: datetime) -> list[datetime]:
        """Those after the one instant, up to and with the other."""
        zone = ZoneInfo(self.timezone)
        minutes = int((until - after) / MINUTE)
        moments = (after + number * MINUTE for number in range(1, minutes + 1))
        return [moment for moment in moments if self.due(moment.astimezone(zone))]

    def terms(self) -> dict[str, Any]:
        return {
            "overlap": self.overlap,
            "timezone": self.timezone,
            "jitter_seconds": self.jitter_seconds,
            "missed": self.missed,
            "most_missed": self.most_missed,
        }


def mixed_rules(count: int, start: datetime, minutes: int) -> list[Rule]:
    """`start` is a full hour of UTC."""
    return [_rule(number, start, minutes) for number in range(count)]


def _rule(number: int, start: datetime, minutes: int) -> Rule:
    name, overlap = f"s{number}", OVERLAPS[number // 10 % len(OVERLAPS)]
    missed, most = (("skip", 1), ("all", 100), ("latest", 1))[number % 3]
    match number % 10:
        case 0 | 2:
            return Rule(name, "* * * * *", lambda _: True, overlap, missed=missed, most_missed=most)
        case 1:
            agent = SLOW if number // 10 % 2 == 0 else QUICK
            return Rule(name, "* * * * *", lambda _: True, OVERLAPS[number // 20 % len(OVERLAPS)], agent)
        case 3 | 4:
            return Rule(name, "*/5 * * * *", _each(5), overlap, missed=missed, most_missed=most)
        case 5:
            return Rule(name, "*/5 * * * *", _each(5), overlap, jitter_seconds=20.0)
        case 9:
            return Rule(name, "3-59/10 * * * *", lambda shown: shown.minute % 10 == 3, overlap, jitter_seconds=15.0)
        case _:
            zone = ZONES[number // 10 % len(ZONES)]
            shown = (start + (1 + 7 * number % minutes) * MINUTE).astimezone(ZoneInfo(zone))
            return Rule(name, f"{shown.minute} {shown.hour} * * *", _at(shown), overlap, timezone=zone, missed=missed)


def _each(minutes: int) -> Due:
    return lambda shown: shown.minute % minutes == 0


def _at(time: datetime) -> Due:
    return lambda shown: (shown.hour, shown.minute) == (time.hour, time.minute)
