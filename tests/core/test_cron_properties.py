"""What holds for every rule, in every zone, at every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.schedules.cron import (
    daylight_saving,
    describe,
    jitter,
    next_slot,
    parse,
    previous_slot,
    slots_between,
    time_zone,
)
from tests.core.cron_oracle import read
from tests.core.cron_rules import cron_texts

zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Antarctica/Troll", "Pacific/Apia", "Asia/Tehran"]
).map(time_zone)
moments = st.datetimes(datetime(2009, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(cron_texts(), zones, moments)
def test_slots_strictly_increase_and_lead_back(text: str, zone: ZoneInfo, moment: datetime) -> None:
    rule = parse(text)
    first = next_slot(rule, zone, moment)
    assert first is not None
    second = next_slot(rule, zone, first)
    assert second is not None

    assert moment < first < second
    assert previous_slot(rule, zone, second) == first
    assert next_slot(rule, zone, first - timedelta(microseconds=1)) == first


@given(cron_texts(), zones, moments)
def test_there_is_no_slot_between_the_previous_and_the_next(text: str, zone: ZoneInfo, moment: datetime) -> None:
    rule = parse(text)
    before = previous_slot(rule, zone, moment)
    assert before is not None
    assert before < moment

    following = next_slot(rule, zone, before)

    assert following is not None
    assert following >= moment
    assert next_slot(rule, zone, moment - timedelta(microseconds=1)) == following


@given(cron_texts(), moments)
def test_in_utc_every_slot_fits_the_fields(text: str, moment: datetime) -> None:
    for slot in slots_between(parse(text), time_zone("UTC"), moment, moment + timedelta(days=800), 5):
        assert read(text).fits(slot)


@given(cron_texts())
def test_every_rule_can_be_told_in_words(text: str) -> None:
    rule = parse(text)

    assert describe(rule)
    assert describe(rule)[0].isupper()
    assert daylight_saving(rule).endswith(".")


@given(st.text(max_size=50), moments, st.floats(0, 1e6))
def test_jitter_stays_in_its_bounds_and_never_changes(schedule_id: str, slot: datetime, seconds: float) -> None:
    delay = jitter(schedule_id, slot, seconds)

    assert 0 <= delay <= seconds
    assert delay == jitter(schedule_id, slot, seconds)
    assert jitter(schedule_id, slot, 0) == 0


def test_jitter_spreads_schedules_and_slots_evenly() -> None:
    slot = datetime(2026, 1, 1, tzinfo=UTC)
    delays = [jitter(f"schedule-{n}", slot + n * timedelta(days=1), 60) for n in range(1_000)]

    assert len(set(delays)) == 1_000
    assert all(sum(low <= delay < low + 10 for delay in delays) > 100 for low in range(0, 60, 10))


def test_the_jitter_of_a_slot_is_the_same_in_every_release() -> None:
    assert jitter("nightly", datetime(2026, 1, 1, tzinfo=UTC), 60) == pytest.approx(8.271957939375298)


@pytest.mark.parametrize(
    ("text", "most_seconds"),
    [
        ("0 9 * * 1-5", 0.000_5),
        ("*/15 * * * *", 0.000_5),
        ("0 0 1 1 *", 0.000_5),
        ("0 0 29 2 *", 0.020),
        ("*/5 0 29 2 *", 0.020),
        ("0 0 */28 2 1", 0.020),
    ],
)
def test_no_slot_is_found_by_trying_minutes(text: str, most_seconds: float) -> None:
    """A typical one takes 10 µs; the bounds leave room for slow machines, and none for a scan."""
    rule, zone, start = parse(text), time_zone("Europe/Berlin"), datetime(2096, 3, 1, 12, 34, 56, tzinfo=UTC)

    def seconds() -> float:
        begun = process_time()
        for _ in range(10):
            next_slot(rule, zone, start)
            previous_slot(rule, zone, start)
        return (process_time() - begun) / 20

    assert min(seconds() for _ in range(10)) < most_seconds
