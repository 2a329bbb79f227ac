"""Reads a cron rule. Whatever is refused is refused with the part that is wrong and what would be right.

Five fields: minute hour day month weekday, each `*`, a number or name, a range `a-b`, a step `*/n`, `a-b/n`, `a/n`
(from a on), or a list of these. `0` and `7` are Sunday. `@hourly`, `@daily` and the like stand for a whole rule.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.schedules.cron.rule import CronRule, Field
from cortex_plane.schedules.cron.words import MONTHS, listed

LONGEST_RULE = 256

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = "minute hour day month weekday"

_WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Signs of other dialects, which mean different things in each.
_UNSUPPORTED = (
    (r"\?", "? is not supported, because it says what * says. Write *."),
    (r".*#.*", "# (the third Friday) is not supported. Write the weekday, and let the agent look at the date."),
    (r"(\d+|[a-z]{3})?lw?", "L (the last) is not supported. Write 28-31 or a weekday, and let the agent look at the date."),
    (r"\d+w", "W (the nearest weekday) is not supported. Write the days that it can be, such as 14-16."),
)


class Allowed(NamedTuple):
    """What a field may hold. `most` is what can be written, `last` what a star ends with: 7 is Sunday once more."""

    name: str
    least: int
    most: int
    last: int
    names: dict[str, int]
    about: str = ""


MINUTE = Allowed("minute", 0, 59, 59, {})
HOUR = Allowed("hour", 0, 23, 23, {}, " Midnight is 0.")
DAY = Allowed("day", 1, 31, 31, {})
MONTH = Allowed("month", 1, 12, 12, {name: number for number, name in enumerate(_MONTH_NAMES, 1)})
WEEKDAY = Allowed("weekday", 0, 7, 6, {name: number for number, name in enumerate(_WEEKDAY_NAMES)}, " 0 and 7 are Sunday.")


def parse(rule: str) -> CronRule:
    minute, hour, day, month, weekday = _five_fields(rule)
    parsed = CronRule(
        _field(MINUTE, minute), _field(HOUR, hour), _field(DAY, day), _field(MONTH, month), _field(WEEKDAY, weekday)
    )
    _check_dates(parsed)
    return parsed


def _five_fields(rule: Any) -> list[str]:
    if not isinstance(rule, str):
        _refuse(f'A cron rule is text such as "0 9 * * 1-5", not {rule!r:.60}.')
    if len(rule) > LONGEST_RULE:
        _refuse(f"The cron rule has {len(rule):,} characters; at most {LONGEST_RULE} are taken.")
    text = " ".join(rule.lower().split())
    if not text:
        _refuse(f'The cron rule is empty. Write five fields ({FIELDS}) such as "0 9 * * 1-5", or @daily.')
    if not text.isprintable():
        _refuse(f"The cron rule {rule!r:.60} has characters that cannot be printed. Write it anew, by hand.")
    parts = (_macro(text) if text.startswith("@") else text).split()
    if len(parts) != 5:
        _refuse(_wrong_number(text, parts))
    return parts


def _macro(text: str) -> str:
    if text in MACROS:
        return MACROS[text]
    if text == "@reboot":
        _refuse("@reboot names no time: a schedule does not follow the starts of a machine. Submit a job when yours starts.")
    return _refuse(f'There is no "{text:.60}".{did_you_mean(text, MACROS)} Known are {", ".join(MACROS)}.')


def _wrong_number(text: str, parts: list[str]) -> str:
    message = f'The cron rule "{text:.60}" has {len(parts)} field{"s" * (len(parts) > 1)}, not five: {FIELDS}.'
    if len(parts) == 6:
        message += f' Seconds and years are not supported; without its first field it is "{" ".join(parts[1:])}".'
    return message


def _field(allowed: Allowed, text: str) -> Field:
    parts = list(dict.fromkeys(text.split(",")))
    if "" in parts:
        _refuse(f'The {allowed.name} "{text:.60}" has a comma too many. Write a list as 1,2,3.')
    if "*" in parts and len(parts) > 1:
        _refuse(f'The {allowed.name} "{text:.60}" has a star in a list. Write * alone: it is every {allowed.name} already.')
    items = [_item(allowed, part) for part in parts]
    values = sorted({value % 7 if allowed is WEEKDAY else value for item in items for value in item.values})
    return Field(",".join(dict.fromkeys(item.text for item in items)), tuple(values))


def _item(allowed: Allowed, text: str) -> Field:
    """One part of a list."""
    span, slash, step_text = text.partition("/")
    low, high = (allowed.least, allowed.last) if span == "*" else _span(allowed, span, text)
    if not slash:
        return Field(_written(allowed, span, low, high), tuple(range(low, high + 1)))
    if span not in ("*", "") and "-" not in span:
        high = allowed.last
    step = _step(allowed, step_text, text, low, high)
    return Field(f"{'*' if span == '*' else f'{low}-{high}'}/{step}", tuple(range(low, high + 1, step)))


def _span(allowed: Allowed, span: str, text: str) -> tuple[int, int]:
    begin, dash, end = span.partition("-")
    low = _value(allowed, begin, text)
    if not dash:
        return (0, 0) if allowed is WEEKDAY and low == 7 else (low, low)
    high = 7 if allowed is WEEKDAY and end == "sun" and low > 0 else _value(allowed, end, text)
    if low > high:
        _refuse(f'The {allowed.name} "{text:.60}" runs backwards. {_forwards(allowed, low, high)}')
    return low, high


def _written(allowed: Allowed, span: str, low: int, high: int) -> str:
    if span == "*":
        return "*"
    return f"{low}-{high}" if "-" in span else str(low)


def _forwards(allowed: Allowed, low: int, high: int) -> str:
    if allowed is WEEKDAY and high == 0:
        return f"Write {low}-7: 7 is Sunday, too."
    if allowed is WEEKDAY and low == 7:
        return f"Write 0-{high}: 0 is Sunday, too."
    return f"Write {low}-{allowed.last},{allowed.least}-{high}, or {high}-{low}."


def _value(allowed: Allowed, word: str, text: str) -> int:
    if word in allowed.names:
        return allowed.names[word]
    if not (word.isascii() and word.isdigit()):
        _refuse(_not_a_value(allowed, word, text))
    if not allowed.least <= int(word) <= allowed.most:
        _refuse(f"The {allowed.name} must be from {allowed.least} to {allowed.most}, not {word:.20}.{allowed.about}")
    return int(word)


def _step(allowed: Allowed, word: str, text: str, low: int, high: int) -> int:
    if not (word.isascii() and word.isdigit() and int(word) > 0):
        _refuse(f'The {allowed.name} "{text:.60}" needs a number of 1 or more after the slash. Write it as */5.')
    step = int(word)
    if step > max(high - low, 1):
        _refuse(
            f'The {allowed.name} "{text:.60}" steps over everything but {low}, because it begins anew after {high}. '
            f"Write {low}, or a step of at most {max(high - low, 1)}."
        )
    return step


def _not_a_value(allowed: Allowed, word: str, text: str) -> str:
    for sign, reason in _UNSUPPORTED:
        if re.fullmatch(sign, word):
            return f'The {allowed.name} "{text:.60}" cannot be used: {reason}'
    wrong = f'The {allowed.name} "{text:.60}" has no number' if not word else f'"{word:.30}" is no {allowed.name}'
    names = f" or a name ({', '.join(allowed.names)})" if allowed.names else ""
    meant = f' Did you mean "{word[:3]}"?' if word[:3] in allowed.names else did_you_mean(word, allowed.names)
    return f"{wrong}.{meant} Write * or a number from {allowed.least} to {allowed.most}{names}."


def _check_dates(rule: CronRule) -> None:
    if rule.either_day:
        return
    longest = max(_LONGEST_MONTHS[month - 1] for month in rule.month.values)
    if rule.day.values[0] > longest:
        months = listed([MONTHS[month - 1] for month in rule.month.values])
        have = "have" if len(rule.month.values) > 1 else "has"
        _refuse(
            f'No date fits "{rule}": {months} {have} at most {longest} days. Write a day up to {longest}, or add another month.'
        )


def _refuse(message: str) -> NoReturn:
    raise InvalidInput(message, field="cron")
