"""When a schedule is due: cron rules of five fields, on the wall clock of a time zone, as pure functions.

parse     text            -> CronRule, or an error that says what would be right
slots     rule, zone      -> the instants at which it is due, daylight saving included
words     rule            -> what it says, for people
"""

from cortex_plane.schedules.cron.parse import parse
from cortex_plane.schedules.cron.rule import CronKind, CronRule, jitter, kind, next_slot, previous_slot, slots_between
from cortex_plane.schedules.cron.words import daylight_saving, describe
from cortex_plane.schedules.cron.zones import time_zone, zone_data_version

__all__ = [
    "CronKind",
    "CronRule",
    "daylight_saving",
    "describe",
    "jitter",
    "kind",
    "next_slot",
    "parse",
    "previous_slot",
    "slots_between",
    "time_zone",
    "zone_data_version",
]
