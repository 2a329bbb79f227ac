"""What a cron rule may look like, and what is said about one that is wrong."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.errors import InvalidInput
from cortex_plane.schedules.cron import kind, parse
from tests.core.cron_rules import cron_texts


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("0 9 * * mon-fri", "0 9 * * 1-5"),
        ("  05  09\t*  JAN,Dec *\n", "5 9 * 1,12 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * fri-sun", "0 0 * * 5-7"),
        ("0 0 * * sun-tue", "0 0 * * 0-2"),
        ("5/15 * * * *", "5-59/15 * * * *"),
        ("0,0,30 * * * *", "0,30 * * * *"),
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_a_rule_has_one_normal_form(written: str, normal: str) -> None:
    assert str(parse(written)) == normal


@given(cron_texts())
def test_a_rule_comes_back_from_its_text(text: str) -> None:
    rule = parse(text)

    assert parse(str(rule)) == rule
    assert parse(text.upper()) == rule


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 * * 0-7", (0, 1, 2, 3, 4, 5, 6)),
        ("0 0 * * 6-7", (0, 6)),
        ("0 0 * * 1-7/2", (0, 1, 3, 5)),
        ("0 0 * * */3", (0, 3, 6)),
        ("0 0 * * mon,7,0", (0, 1)),
    ],
)
def test_sunday_is_0_and_7(text: str, days: tuple[int, ...]) -> None:
    assert parse(text).weekday.values == days


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 9 * * 1-5", "fixed"),
        ("0,30 9,17 */2 1-6 *", "fixed"),
        ("@daily", "fixed"),
        ("@hourly", "interval"),
        ("*/15 9 * * *", "interval"),
        ("0 9-17 * * *", "interval"),
        ("0 9,12-14 * * *", "interval"),
        ("0 */6 * * *", "interval"),
        ("* * * * *", "interval"),
    ],
)
def test_times_that_are_written_out_are_fixed_all_else_is_an_interval(text: str, expected: str) -> None:
    assert kind(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is text"),
        (5, "is text"),
        ("", "empty"),
        (" \t", "empty"),
        ("0 " * 200, "at most 256"),
        ("0 9 * *", "has 4 fields, not five: minute hour day month weekday"),
        ("daily", "has 1 field, not five"),
        ("0 0 9 * * 1", 'Seconds and years are not supported; without its first field it is "0 9 * * 1"'),
        ("0 0 0 9 * * *", "has 7 fields"),
        ("60 * * * *", "minute must be from 0 to 59, not 60"),
        ("0 24 * * *", "hour must be from 0 to 23, not 24. Midnight is 0"),
        ("0 0 0 * *", "day must be from 1 to 31, not 0"),
        ("0 0 1 13 *", "month must be from 1 to 12, not 13"),
        ("0 0 * * 8", "weekday must be from 0 to 7, not 8. 0 and 7 are Sunday"),
        ("0 0 * * mn", '"mn" is no weekday. Did you mean "mon"?'),
        ("0 0 * september *", '"september" is no month. Did you mean "sep"?'),
        ("jan * * * *", '"jan" is no minute. Write * or a number from 0 to 59'),
        ("0 ٣ * * *", "is no hour"),
        ("0 1.5 * * *", "is no hour"),
        ("-5 * * * *", 'minute "-5" has no number'),
        ("5- * * * *", 'minute "5-" has no number'),
        ("/5 * * * *", 'minute "/5" has no number'),
        ("1-2-3 * * * *", '"2-3" is no minute'),
        ("1,,2 * * * *", "a comma too many"),
        ("*,5 * * * *", "a star in a list. Write * alone"),
        ("0 22-2 * * *", 'hour "22-2" runs backwards. Write 22-23,0-2'),
        ("0 0 * * 5-0", "Write 5-7: 7 is Sunday, too"),
        ("0 0 * * 7-2", "Write 0-2: 0 is Sunday, too"),
        ("*/0 * * * *", "a number of 1 or more after the slash"),
        ("*/x * * * *", "a number of 1 or more after the slash"),
        ("*/ * * * *", "a number of 1 or more after the slash"),
        ("*/90 * * * *", "steps over everything but 0, because it begins anew after 59. Write 0, or a step of at most 59"),
        ("0 0 */32 * *", "steps over everything but 1"),
        ("10-20/15 * * * *", "steps over everything but 10"),
        ("0 0 30 2 *", 'No date fits "0 0 30 2 *": February has at most 29 days. Write a day up to 29'),
        ("0 0 31 4,6,9,11 *", "April, June, September and November have at most 30 days. Write a day up to 30"),
        ("0 0 31 feb */2", "February has at most 29 days"),
        ("0 0 L * *", "L (the last) is not supported"),
        ("0 0 L-3 * *", "L (the last) is not supported"),
        ("0 0 LW * *", "L (the last) is not supported"),
        ("0 0 * * 5L", "L (the last) is not supported"),
        ("0 0 15W * *", "W (the nearest weekday) is not supported"),
        ("0 0 * * fri#3", "# (the third Friday) is not supported"),
        ("0 0 ? * 1", "? is not supported, because it says what * says. Write *"),
        ("@dayly", 'There is no "@dayly". Did you mean "@daily"?'),
        ("@every 5m", "Known are @hourly, @daily"),
        ("@reboot", "@reboot names no time"),
        ("0 0 * *\x00 *", "cannot be printed"),
    ],
)
def test_a_wrong_rule_is_refused_with_what_would_be_right(text: Any, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(text)

    assert says in str(refused.value)
    assert refused.value.field == "cron"


def test_a_day_that_no_month_has_is_taken_if_the_weekday_may_fit_instead() -> None:
    assert str(parse("0 0 31 2 1")) == "0 0 31 2 1"


@given(st.text(max_size=30) | st.text("0123456789*/-,@#?LW abcdefnostuy", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert parse(text)
