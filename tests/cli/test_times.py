"""Times as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cortex_plane import InvalidInput
from cortex_plane.cli.output import duration, moment, stamp
from cortex_plane.durations import ago, rough, span

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("1H 5M", 3900), ("0", 0), ("-5", -5)],
)
def test_a_duration_is_a_number_of_seconds_or_has_units(text: str, seconds: float) -> None:
    assert duration(text, "delay") == seconds


@pytest.mark.parametrize("text", ["", "5x", "m", "5m!", "five", "1h30", "1:30"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a duration"):
        duration(text, "delay")


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2026-01-05T12:00", NOON),
        ("2026-01-05 12:00:00", NOON),
        ("2026-01-05T13:00+01:00", NOON),
        ("2026-01-05T12:00:00Z", NOON),
        ("2026-01-05", datetime(2026, 1, 5, tzinfo=UTC)),
    ],
)
def test_a_moment_without_a_zone_is_in_utc(text: str, when: datetime) -> None:
    assert moment(text, "run-at") == when
    assert moment(text, "run-at").tzinfo is not None


def test_moments_are_shown_in_utc() -> None:
    assert stamp(NOON.astimezone(timezone(timedelta(hours=5)))) == "2026-01-05 12:00:00 UTC"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "just now"),
        (-0.4, "just now"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (200_000, "2 d ago"),
        (-90, "in 1 min"),
    ],
)
def test_distances_are_rough(seconds: float, text: str) -> None:
    assert ago(NOON - timedelta(seconds=seconds), NOON) == text


def test_an_age_never_runs_backwards() -> None:
    assert rough(timedelta(seconds=-3)) == "0 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 ms"), (0.0042, "4 ms"), (1.234, "1.23 s"), (12.34, "12.3 s"), (125, "2 min 5 s"), (7500, "2 h 5 min")],
)
def test_spans_are_as_exact_as_people_want_them(seconds: float, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text
