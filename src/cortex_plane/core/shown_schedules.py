"""A schedule as others are shown it: with its rule in words, and what becomes of it when the clocks change."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from cortex_plane.core.cron import daylight_saving, describe, kind, parse
from cortex_plane.core.schedules import Schedule


@dataclass(frozen=True, slots=True)
class ShownSchedule(Schedule):
    """`daylight_saving_rule` is the name of the rule, `daylight_saving` says what it does."""

    description: str = ""
    daylight_saving_rule: Literal["fixed", "interval"] = "fixed"
    daylight_saving: str = ""


def shown(schedule: Schedule) -> ShownSchedule:
    rule = parse(schedule.terms.cron)
    return ShownSchedule(
        **{one.name: getattr(schedule, one.name) for one in fields(Schedule)},
        description=f"{describe(rule)}, {schedule.terms.timezone}",
        daylight_saving_rule=kind(rule),
        daylight_saving=daylight_saving(rule),
    )
