"""Ids sort by age; instants are microseconds that lose nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.adapters.system import SystemClock, new_id
from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.errors import UnknownAgent
from cortex_plane.core.instants import Instant, after, as_datetime, as_short_text, as_text, instant
from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.retry import Backoff, RetryPolicy
from cortex_plane.core.workers import actor_of

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
HALF_AN_HOUR_EAST = timezone(timedelta(hours=5, minutes=30))


def test_ids_are_canonical_uuids_of_version_7_that_sort_in_order_of_making() -> None:
    ids = [new_id() for _ in range(10_000)]

    assert all(UUID7.fullmatch(one) for one in ids)
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_an_id_begins_with_the_time() -> None:
    before = SystemClock().now() // 1000
    milliseconds = int(new_id().replace("-", "")[:12], 16)

    assert before <= milliseconds <= SystemClock().now() // 1000


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_an_instant_gives_back_its_datetime(moment: datetime) -> None:
    assert as_datetime(instant(moment)) == moment


def test_a_zone_is_taken_into_account_and_none_means_utc() -> None:
    noon = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

    assert instant(noon) == 1_767_614_400_000_000
    assert instant(datetime(2026, 1, 5, 17, 30, tzinfo=HALF_AN_HOUR_EAST)) == instant(noon)
    assert instant(noon.replace(tzinfo=None)) == instant(noon)


@pytest.mark.parametrize(("seconds", "microseconds"), [(1, 1_000_000), (0.57, 570_000), (0.0000015, 2), (-1, -1_000_000)])
def test_seconds_are_added_to_the_nearest_microsecond(seconds: float, microseconds: int) -> None:
    assert after(Instant(7), seconds) - 7 == microseconds


def test_the_clock_that_measures_never_goes_back() -> None:
    clock = SystemClock()
    times = [clock.elapsed() for _ in range(1_000)]

    assert times == sorted(times)


def test_a_worker_signs_with_its_id() -> None:
    assert actor_of(WorkerId("0197")) == "worker:0197"


def test_an_agents_config_comes_back_from_its_json() -> None:
    config = AgentConfig("mail", RetryPolicy("chain", 7, Backoff(2, 60, 3, jitter=False)), "fail", 5, 1.5)

    assert AgentConfig.from_json(config.to_json()) == config


def test_an_agents_config_of_another_version_is_read_as_far_as_it_is_known() -> None:
    assert AgentConfig.from_json({}) == AgentConfig()
    assert AgentConfig.from_json({"queue": "mail", "colour": "red"}) == AgentConfig(queue="mail")


def test_an_unknown_agent_is_answered_with_the_nearest_name() -> None:
    assert 'Did you mean "release-bot"?' in str(UnknownAgent("relese-bot", ["release-bot", "mailer"]))
    assert "No agent has been registered yet" in str(UnknownAgent("relese-bot", []))


def test_the_short_text_is_the_same_instant() -> None:
    at = instant(datetime(2026, 11, 15, 10, 0, 0, 250_007, tzinfo=UTC))
    assert as_short_text(at) == "2026-11-15T10:00:00.250007Z"
    assert datetime.fromisoformat(as_short_text(at)) == datetime.fromisoformat(as_text(at)) == as_datetime(at)
