"""When a rule is due, compared with a look at every minute of ten years, and told by example where the clocks change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.schedules.cron import next_slot, parse, previous_slot, slots_between, time_zone
from tests.core.cron_oracle import Minutes, read

EVERYTHING = 10**7
MOMENT = timedelta(microseconds=1)

# Each zone with the first of its ten years: the clocks are moved by half an hour in Lord Howe, by two in Troll, at midnight in
# Santiago, São Paulo and Cairo, and before it in Nuuk; Apia skipped 30 December 2011.
ZONES = {
    "Europe/Berlin": 2018,
    "America/New_York": 2018,
    "Australia/Lord_Howe": 2018,
    "Pacific/Chatham": 2018,
    "America/Santiago": 2018,
    "America/Sao_Paulo": 2011,
    "Africa/Cairo": 2014,
    "Antarctica/Troll": 2018,
    "Pacific/Apia": 2008,
    "America/Nuuk": 2018,
    "UTC": 2018,
}
RULES = [
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0,1,2,3,23 * * 6,0",
    "0 9 * * mon-fri",
    "30 23,0 1,15,30 * *",
    "10 1 13 * 5",
    "0 12 29 2 *",
    "*/15 0-4 * 3,4,9-11 sun,6",
    "0 * * * *",
    "20-40/10 23 * * *",
    "0 */3 */2 * 1-6/2",
    "*/7 2 20-31 mar,oct 0",
]


@pytest.fixture(scope="module", params=ZONES)
def minutes(request: pytest.FixtureRequest) -> tuple[ZoneInfo, Minutes]:
    zone, year = ZoneInfo(request.param), ZONES[request.param]
    return zone, Minutes(zone, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 10, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("rule", RULES)
def test_the_slots_of_ten_years_are_those_that_every_single_minute_shows(minutes: tuple[ZoneInfo, Minutes], rule: str) -> None:
    zone, every_minute = minutes
    expected = every_minute.slots(read(rule))

    assert slots_between(parse(rule), zone, every_minute.start, every_minute.end, EVERYTHING) == expected
    check_around_changes(rule, zone, every_minute, expected)


@pytest.mark.parametrize("rule", ["* * * * *", "*/15 * * * *", "5-59/20 * * * *", "* 0-3,22,23 * * *"])
def test_busy_rules_follow_real_time_wherever_the_clocks_change(minutes: tuple[ZoneInfo, Minutes], rule: str) -> None:
    zone, every_minute = minutes
    changes = every_minute.changes or [every_minute.start + timedelta(days=100)]
    windows = [(change - timedelta(hours=4), change + timedelta(hours=4)) for change in changes]

    found = [slots_between(parse(rule), zone, start, end, EVERYTHING) for start, end in windows]

    assert found == every_minute.slots_in(read(rule), windows)


def test_clocks_that_fall_back_over_midnight_are_followed() -> None:
    """In St. John's one minute past midnight was followed by 23:01 of the day before."""
    zone = ZoneInfo("America/St_Johns")
    every_minute = Minutes(zone, datetime(2009, 10, 1, tzinfo=UTC), datetime(2010, 4, 1, tzinfo=UTC), grain=1)

    for rule in RULES:
        expected = every_minute.slots(read(rule))
        assert slots_between(parse(rule), zone, every_minute.start, every_minute.end, EVERYTHING) == expected
        check_around_changes(rule, zone, every_minute, expected)


def check_around_changes(text: str, zone: ZoneInfo, every_minute: Minutes, slots: list[datetime]) -> None:
    """From any instant near a change, slot or not, the neighbours are found in both directions."""
    rule = parse(text)
    for change in every_minute.changes:
        for steps in range(-6, 7):
            at = change + timedelta(minutes=30 * steps)
            for near in (at - MOMENT, at, at + timedelta(seconds=61)):
                before, after = bisect_left(slots, near) - 1, bisect_right(slots, near)
                if before >= 0:
                    assert previous_slot(rule, zone, near) == slots[before], near
                if after < len(slots):
                    assert next_slot(rule, zone, near) == slots[after], near


@pytest.mark.parametrize(
    ("zone", "rule", "day", "expected"),
    [
        # A fixed time in the gap runs at its end; several run once.
        ("Europe/Berlin", "30 2 * * *", "2026-03-29", ["03:00+02:00"]),
        ("Europe/Berlin", "0,15,30 2,3 * * *", "2026-03-29", ["03:00+02:00", "03:15+02:00", "03:30+02:00"]),
        ("America/New_York", "30 2 * * *", "2026-03-08", ["03:00-04:00"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-04", ["02:30+11:00"]),
        ("America/Sao_Paulo", "0 0 * * *", "2018-11-04", ["01:00-02:00"]),
        ("Africa/Cairo", "0 0 * * *", "2026-04-24", ["01:00+03:00"]),
        ("Antarctica/Troll", "0 2 * * *", "2026-03-29", ["03:00+02:00"]),
        # A fixed time that comes twice runs the first time.
        ("Europe/Berlin", "30 2 * * *", "2026-10-25", ["02:30+02:00"]),
        ("America/New_York", "30 1 * * *", "2026-11-01", ["01:30-04:00"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-05", ["01:45+11:00"]),
        ("America/Sao_Paulo", "30 23 * * *", "2018-02-17", ["23:30-02:00"]),
        # The day after is as any other.
        ("Europe/Berlin", "0 0 * * *", "2026-03-30", ["00:00+02:00"]),
        # Intervals follow real time.
        ("Europe/Berlin", "*/30 1-3 * * *", "2026-03-29", ["01:00+01:00", "01:30+01:00", "03:00+02:00", "03:30+02:00"]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-03-29", []),
        ("Europe/Berlin", "*/30 2 * * *", "2026-10-25", ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
        # A date that the clocks skip has no slots, and the next one its own only.
        ("Pacific/Apia", "0 9 * * *", "2011-12-30", []),
        ("Pacific/Apia", "0 9 * * *", "2011-12-31", ["09:00+14:00"]),
    ],
)
def test_what_runs_on_a_day_on_which_the_clocks_change(zone: str, rule: str, day: str, expected: list[str]) -> None:
    where = time_zone(zone)
    start = datetime.fromisoformat(f"{day}T00:00Z") - timedelta(days=1)

    slots = slots_between(parse(rule), where, start, start + timedelta(days=3), EVERYTHING)

    local = [slot.astimezone(where).isoformat(timespec="minutes") for slot in slots]
    assert [text.partition("T")[2] for text in local if text.startswith(day)] == expected


def test_a_time_that_would_be_skipped_at_the_end_of_a_day_runs_as_the_next_one_begins() -> None:
    slots = slots_between(
        parse("30 23 * * *"),
        time_zone("America/Nuuk"),
        datetime(2025, 3, 29, 12, tzinfo=UTC),
        datetime(2025, 3, 31, 12, tzinfo=UTC),
        10,
    )

    assert slots == [datetime(2025, 3, 30, 1, tzinfo=UTC), datetime(2025, 3, 31, 0, 30, tzinfo=UTC)]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("rule", "after", "expected"),
    [
        ("0 0 29 2 *", utc(2096, 2, 29), utc(2104, 2, 29)),
        ("*/30 0 29 2 *", utc(2096, 2, 29, 0, 30), utc(2104, 2, 29)),
        ("0 0 */28 2 1", utc(2072, 2, 2), utc(2072, 2, 29)),
        ("0 0 */28 2 1", utc(2072, 2, 29), utc(2077, 2, 1)),
        ("0 0 31 * *", utc(2026, 1, 31), utc(2026, 3, 31)),
        ("0 0 1 1 *", utc(2026, 1, 1), utc(2027, 1, 1)),
        ("0 0 * * *", utc(2026, 1, 1) - MOMENT, utc(2026, 1, 1)),
        ("* * * * *", utc(2026, 1, 1, 0, 0, 59, 999_999), utc(2026, 1, 1, 0, 1)),
        ("* * * * *", datetime(2026, 1, 1, 1, 0, tzinfo=ZoneInfo("Europe/Berlin")), utc(2026, 1, 1, 0, 1)),
        ("* * * * *", datetime(2026, 1, 1), utc(2026, 1, 1, 0, 1)),  # noqa: DTZ001
    ],
)
def test_the_next_slot_comes_strictly_after(rule: str, after: datetime, expected: datetime) -> None:
    assert next_slot(parse(rule), time_zone("UTC"), after) == expected


def test_an_hour_that_comes_twice_is_not_overlooked_when_its_next_date_is_a_year_away() -> None:
    zone, first, second = time_zone("Europe/Berlin"), utc(2026, 10, 25, 0, 45), utc(2021, 10, 31, 1, 10)

    assert next_slot(parse("*/30 2 25 10 *"), zone, first) == utc(2026, 10, 25, 1, 0)
    assert previous_slot(parse("40-50/5 2 31 10 *"), zone, second) == utc(2021, 10, 31, 0, 50)


@pytest.mark.parametrize("rule", ["0 0 29 2 *", "* * * * *", "0 0 * * *"])
def test_beyond_the_calendar_there_is_no_slot(rule: str) -> None:
    ends = [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]

    assert next_slot(parse(rule), time_zone("Asia/Tokyo"), ends[0]) is None
    assert previous_slot(parse(rule), time_zone("America/New_York"), ends[1]) is None
    assert slots_between(parse(rule), time_zone("UTC"), ends[0], ends[1], 3) == []


def test_a_range_includes_its_start_but_not_its_end_and_stops_at_the_limit() -> None:
    hourly, zone = parse("@hourly"), time_zone("UTC")

    assert slots_between(hourly, zone, utc(2026, 1, 1), utc(2026, 1, 1, 2), 10) == [utc(2026, 1, 1), utc(2026, 1, 1, 1)]
    assert slots_between(hourly, zone, utc(2026, 1, 1), utc(2027, 1, 1), 3)[-1] == utc(2026, 1, 1, 2)
    assert slots_between(hourly, zone, utc(2026, 1, 1), utc(2026, 1, 1), 3) == []
    with pytest.raises(InvalidInput, match="limit"):
        slots_between(hourly, zone, utc(2026, 1, 1), utc(2027, 1, 1), 0)
