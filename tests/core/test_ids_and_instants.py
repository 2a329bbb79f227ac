"""Ids sort by age; instants are microseconds that lose nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane import ids as system
from cortex_plane.agents.model import AgentConfig
from cortex_plane.clock import Instant, SystemClock, after, as_datetime, as_short_text, as_text, instant
from cortex_plane.errors import UnknownAgent
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import WorkerId
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.worker.model import actor_of

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
HALF_AN_HOUR_EAST = timezone(timedelta(hours=5, minutes=30))


def test_ids_are_canonical_uuids_of_version_7_that_sort_in_order_of_making() -> None:
    ids = [new_id() for _ in range(10_000)]

    assert all(UUID7.fullmatch(one) for one in ids)
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_ids_that_threads_make_at_the_same_time_differ() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [one for ids in threads.map(lambda _: [new_id() for _ in range(2_000)], range(8)) for one in ids]

    assert len(set(made)) == len(made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_go_on_with_the_ids_of_its_parent() -> None:
    """The counter is that of one process: parent and child would differ by their last 32 bits only."""
    program = (
        "import os; from cortex_plane import ids as system\n"
        "system.new_id(); before = system._new_id\n"
        "if os.fork() == 0:\n    os._exit(0 if system._new_id is not before and system.new_id() else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0


def test_ids_keep_their_order_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = new_id()
    monkeypatch.setattr(system, "time", SimpleNamespace(time_ns=lambda: 1_700_000_000_000_000_000))

    later = [new_id() for _ in range(3)]

    assert [earlier, *later] == sorted([earlier, *later])


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
