"""What a rule reads like."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest

from cortex_plane.schedules.cron import daylight_saving, describe, parse
from cortex_plane.schedules.cron.rule import CronRule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "Every minute"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("*/45 * * * *", "At 0 and 45 minutes past every hour"),
        ("0 * * * *", "Every hour"),
        ("1 * * * *", "At 1 minute past every hour"),
        ("15 9-17 * * *", "At 15 minutes past every hour from 09:00 to 17:59"),
        ("0 */2 * * *", "Every 2 hours"),
        ("0 9-17 * * 1-5", "Every hour from 09:00 to 17:00 on weekdays"),
        ("30 */2 * * *", "At 30 minutes past the hours 00, 02, 04 … 22"),
        ("*/15 8-17 * * 1", "Every 15 minutes from 08:00 to 17:59 on Monday"),
        ("*/10 9,11 * dec *", "Every 10 minutes during the hours 09 and 11 in December"),
        ("1-59/2 * * * *", "At 1, 3, 5 … 59 minutes past every hour"),
        ("0-5,9 2 * * *", "At 0 to 5 and 9 minutes past every hour from 02:00 to 02:59"),
        ("0 0 * * *", "Every day at 00:00"),
        ("0 9,17 * * *", "Every day at 09:00 and 17:00"),
        ("0 9 * * 1-5", "Every weekday at 09:00"),
        ("0 9 * * 7,6", "Every Saturday and Sunday at 09:00"),
        ("0 9 * 6-8 mon", "Every Monday at 09:00 in June to August"),
        ("0 9 1-31 * *", "Every day at 09:00"),
        ("30 2 1,15 * *", "At 02:30 on the 1st and 15th of the month"),
        ("0 0 2,3,11-13,22 * *", "At 00:00 on the 2nd, 3rd, 11th to 13th and 22nd of the month"),
        ("@yearly", "At 00:00 on the 1st of January"),
        ("0 0 1 * 1", "At 00:00 on the 1st of the month and on every Monday"),
        ("0 0 1 5 1,3", "At 00:00 on the 1st of May and on every Monday and Wednesday in May"),
        ("0 0 */10 * 1,3", "At 00:00 on the 1st, 11th, 21st and 31st of the month if it is a Monday or Wednesday"),
        ("*/20 * 1 * *", "Every 20 minutes on the 1st of the month"),
    ],
)
def test_a_rule_reads_as_people_say_it(text: str, words: str) -> None:
    assert describe(parse(text)) == words


def test_rules_that_differ_in_effect_read_differently() -> None:
    minutes = ["0", "1", "30", "0,30", "*", "*/15", "*/45", "5-10", "5,6,7,8,9,11", "1-59/2", "2-58/2"]
    hours = ["0", "9", "0,12", "9,17", "*", "*/2", "1-23/2", "9-17", "9,10", "9-11,14"]
    days = ["*", "1", "1,15", "*/2", "1-7"]
    months = ["*", "1", "6-8"]
    weekdays = ["*", "1", "1-5", "0,6", "*/2"]
    told: dict[str, set[object]] = defaultdict(set)

    for parts in product(minutes, hours, days, months, weekdays):
        rule = parse(" ".join(parts))
        told[describe(rule)].add(effect(rule))

    assert [words for words, effects in told.items() if len(effects) > 1] == []


def effect(rule: CronRule) -> object:
    return rule.times, rule.month.values, tuple(rule.fits_day(day, weekday) for day in range(1, 32) for weekday in range(7))


def test_the_two_ways_with_daylight_saving_have_words() -> None:
    assert daylight_saving(parse("0 9 * * *")) == (
        "Runs once on every day at each of its times: a time that the clocks skip runs as soon as they have moved on, "
        "a time that they show twice runs the first time only."
    )
    assert daylight_saving(parse("*/5 * * * *")) == (
        "Follows real time: what the clocks skip does not run, and what they show twice runs twice."
    )
