"""When a failed job is tried again."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.retry import MAX_RETRY_AFTER_SECONDS, Backoff, RetryPolicy, check_max_retries, retry_after_seconds

amounts = st.floats(0, 1e300) | st.floats(0, 1e6) | st.integers(0, 10**6) | st.sampled_from([0, 5e-324, 1e-9, 1e308])
legal = st.builds(
    Backoff,
    base_seconds=amounts,
    max_seconds=amounts,
    multiplier=st.floats(1, 1e300) | st.floats(1, 10) | st.sampled_from([1, 1.0000000000000002, 2, 1e308]),
    jitter=st.booleans(),
)
counts = st.integers(0, 10**9) | st.integers(0, 200)
chances = st.floats(0, 1)


@pytest.mark.parametrize(
    ("retry", "seconds"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 64), (8, 128), (9, 256), (10, 300), (11, 300), (10**9, 300)],
)
def test_the_defaults_without_jitter_are_those_of_the_specification(retry: int, seconds: float) -> None:
    """Retry 1 happens when none was made before: n counts from 0."""
    assert Backoff(jitter=False).delay_seconds(retry - 1, 0.123) == pytest.approx(seconds)


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 0.0), (0.25, 1.0), (0.5, 2.0), (1.0, 4.0)])
def test_jitter_takes_any_part_of_the_delay(chance: float, seconds: float) -> None:
    assert Backoff().delay_seconds(2, chance) == pytest.approx(seconds)


@given(backoff=legal, count=counts, chance=chances)
def test_no_legal_backoff_overflows_or_leaves_its_bounds(backoff: Backoff, count: int, chance: float) -> None:
    ceiling, delay = backoff.ceiling_seconds(count), backoff.delay_seconds(count, chance)

    assert isfinite(delay)
    assert 0 <= delay <= ceiling <= backoff.max_seconds
    assert backoff.jitter or delay == ceiling


@given(backoff=legal, count=st.integers(0, 1000))
def test_a_later_retry_never_waits_less(backoff: Backoff, count: int) -> None:
    assert backoff.ceiling_seconds(count) <= backoff.ceiling_seconds(count + 1)


@given(
    base=st.floats(1e-3, 1e3),
    most=st.floats(1e-3, 1e6),
    multiplier=st.floats(1, 10),
    count=st.integers(0, 60),
)
def test_the_ceiling_is_the_formula_wherever_the_formula_can_be_computed(
    base: float, most: float, multiplier: float, count: int
) -> None:
    backoff = Backoff(base, most, multiplier, jitter=False)

    assert backoff.ceiling_seconds(count) == pytest.approx(min(most, base * multiplier**count))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"base_seconds": -1}, "backoff.base_seconds"),
        ({"base_seconds": float("nan")}, "backoff.base_seconds"),
        ({"max_seconds": float("inf")}, "backoff.max_seconds"),
        ({"max_seconds": -0.1}, "backoff.max_seconds"),
        ({"multiplier": 0.5}, "backoff.multiplier"),
        ({"multiplier": float("nan")}, "backoff.multiplier"),
        ({"base_seconds": "1"}, "backoff.base_seconds"),
        ({"base_seconds": 10**400}, "backoff.base_seconds"),
    ],
)
def test_an_impossible_backoff_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field) as refused:
        Backoff(**fields)

    assert refused.value.field == field


@pytest.mark.parametrize("value", [-1, 101, 1.5, True, "3", None])
def test_max_retries_is_a_whole_number_from_0_to_100(value: Any) -> None:
    with pytest.raises(InvalidInput, match="max_retries"):
        check_max_retries(value)
    with pytest.raises(InvalidInput, match="max_retries"):
        RetryPolicy(max_retries=value)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidInput, match="in_place"):
        RetryPolicy(mode="again")  # type: ignore[arg-type]


@given(
    st.builds(RetryPolicy, mode=st.sampled_from(["in_place", "chain"]), max_retries=st.integers(0, 100), backoff=legal),
)
def test_a_policy_comes_back_from_its_json(policy: RetryPolicy) -> None:
    assert RetryPolicy.from_json(policy.to_json()) == policy


def test_a_policy_of_a_newer_version_is_read_without_what_we_do_not_know() -> None:
    stored = {"mode": "chain", "colour": "red", "backoff": {"base_seconds": 5, "phase": 1}}

    assert RetryPolicy.from_json(stored) == RetryPolicy(mode="chain", backoff=Backoff(base_seconds=5))


@pytest.mark.parametrize("asked", ["9" * 400, "99999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_service_that_asks_for_ages_is_left_alone_for_a_day(asked: str) -> None:
    assert retry_after_seconds(asked, datetime(2026, 1, 5, tzinfo=UTC)) == MAX_RETRY_AFTER_SECONDS


@pytest.mark.parametrize(
    "asked", ["", "-5", "1e9", "soon", "inf", "nan", ".", "Mon, 05 Jan 2026 00:01:00 -9900", "\u0663", "1,5"]
)
def test_what_is_neither_a_number_nor_a_date_asks_for_nothing(asked: str) -> None:
    assert retry_after_seconds(asked, datetime(2026, 1, 5, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    "asked", ["Mon, 05 Jan 2026 00:01:00 GMT", "Monday, 05-Jan-26 00:01:00 GMT", "Mon Jan  5 00:01:00 2026", "60", " 60 ", "60.0"]
)
def test_a_minute_in_all_forms_that_http_has(asked: str) -> None:
    assert retry_after_seconds(asked, datetime(2026, 1, 5, tzinfo=UTC)) == 60
