"""Says in plain English when a rule is due."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.schedules.cron.rule import CronRule, kind

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_MOST_TIMES = 12


def describe(rule: CronRule) -> str:
    """`Every weekday at 09:00`, `Every 15 minutes from 08:00 to 17:59 on Monday`, `At 02:30 on the 1st of the month`."""
    days, weekdays = _restricted_days(rule)
    times = f"at {listed([_clock(minutes) for minutes in rule.times])}" if _has_few_times(rule) else None
    if days:
        text = f"{times or _repeated(rule)} {_on_days(rule, weekdays)}"
    elif times:
        text = f"every {_named(rule) if weekdays else 'day'} {times}{_in_months(rule)}"
    else:
        text = f"{_repeated(rule)}{_on_weekdays(rule) if weekdays else ''}{_in_months(rule)}"
    return text[0].upper() + text[1:]


def daylight_saving(rule: CronRule) -> str:
    """What becomes of the rule when the clocks change."""
    match kind(rule):
        case "fixed":
            return (
                "Runs once on every day at each of its times: a time that the clocks skip runs as soon as they have moved on, "
                "a time that they show twice runs the first time only."
            )
        case "interval":
            return "Follows real time: what the clocks skip does not run, and what they show twice runs twice."


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _restricted_days(rule: CronRule) -> tuple[bool, bool]:
    """Whether the day of the month says anything, and whether the weekday does."""
    days, weekdays = len(rule.day.values) < 31, len(rule.weekday.values) < 7
    return (days and weekdays, days and weekdays) if rule.either_day else (days, weekdays)


def _has_few_times(rule: CronRule) -> bool:
    goes_on = len(rule.minute.values) > 1 or _every(rule.hour.values, 24) > 0 or _runs(rule.hour.values)
    return len(rule.times) <= _MOST_TIMES and (kind(rule) == "fixed" or not goes_on)


def _repeated(rule: CronRule) -> str:
    minutes, hours = rule.minute.values, rule.hour.values
    if minutes == (0,) and (every := _every(hours, 24)):
        return "every hour" if every == 1 else f"every {every} hours"
    if minutes == (0,) and _runs(hours):
        return f"every hour from {_clock(hours[0] * 60)} to {_clock(hours[-1] * 60)}"
    if every := _every(minutes, 60):
        return ("every minute" if every == 1 else f"every {every} minutes") + _in_hours(hours, " during the hours")
    past = _in_hours(hours, " the hours")
    unit = "minute past" if minutes == (1,) else "minutes past"
    every_hour = "" if past.startswith(" the") else " every hour"
    return f"at {_series(minutes, [str(minute) for minute in minutes])} {unit}{every_hour}{past}"


def _in_hours(hours: Sequence[int], otherwise: str) -> str:
    if len(hours) == 24:
        return ""
    if len(hours) == 1 or _runs(hours):
        return f" from {_clock(hours[0] * 60)} to {_clock(hours[-1] * 60 + 59)}"
    return f"{otherwise} {_series(hours, [f'{hour:02}' for hour in hours])}"


def _on_days(rule: CronRule, weekdays: bool) -> str:
    months = "the month" if len(rule.month.values) == 12 else _months(rule)
    days = f"on the {_series(rule.day.values, [_ordinal(day) for day in rule.day.values])} of {months}"
    if not weekdays:
        return days
    if rule.either_day:
        return f"{days} and on every {_named(rule)}{_in_months(rule)}"
    return f"{days} if it is a {_named(rule, 'or')}"


def _on_weekdays(rule: CronRule) -> str:
    return " on weekdays" if _named(rule) == "weekday" else f" on {_named(rule)}"


def _named(rule: CronRule, last: str = "and") -> str:
    if rule.weekday.values == (1, 2, 3, 4, 5):
        return "weekday"
    from_monday = sorted(rule.weekday.values, key=lambda weekday: weekday or 7)
    return listed([WEEKDAYS[weekday] for weekday in from_monday]).replace(" and ", f" {last} ")


def _in_months(rule: CronRule) -> str:
    return "" if len(rule.month.values) == 12 else f" in {_months(rule)}"


def _months(rule: CronRule) -> str:
    return _series(rule.month.values, [MONTHS[month - 1] for month in rule.month.values])


def _every(values: Sequence[int], whole: int) -> int:
    """The step by which the values go evenly round the clock, or 0."""
    step = values[1] - values[0] if len(values) > 1 else 0
    return step if step and whole % step == 0 and tuple(values) == tuple(range(0, whole, step)) else 0


def _runs(values: Sequence[int]) -> bool:
    return len(values) > 1 and values[-1] - values[0] == len(values) - 1


def _series(values: Sequence[int], words: Sequence[str]) -> str:
    """`1 to 5 and 9`; `1, 3, 5 … 59` for a long series of equal steps."""
    step = values[1] - values[0] if len(values) > 1 else 0
    if len(values) > 6 and step > 1 and tuple(values) == tuple(range(values[0], values[-1] + 1, step)):
        return f"{', '.join(words[:3])} … {words[-1]}"
    pieces: list[str] = []
    begin = 0
    for end in range(1, len(values) + 1):
        if end < len(values) and values[end] == values[end - 1] + 1:
            continue
        pieces += [f"{words[begin]} to {words[end - 1]}"] if end - begin > 2 else words[begin:end]
        begin = end
    return listed(pieces)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _ordinal(day: int) -> str:
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"
