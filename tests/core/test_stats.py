"""What is reckoned from recent jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as some

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.model import COLUMNS, Percentiles, RecentFailure, RecentJob, failing_agents, first_id_at, load_of

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def job(minutes_ago: float, status: JobStatus = JobStatus.COMPLETED, waited: float = 1.0, ran: float = 2.0) -> RecentJob:
    created = NOW - timedelta(minutes=minutes_ago)
    started = created + timedelta(seconds=waited)
    return RecentJob(
        JobId(new_id()), TenantId("t"), "echo", "default", status, created, started, started + timedelta(seconds=ran)
    )


@given(some.lists(some.floats(0, 59.9), max_size=40))
def test_every_job_of_the_last_hour_is_in_one_column(ages: list[float]) -> None:
    load = load_of([job(age) for age in ages], NOW, complete=True)

    assert sum(column.submitted for column in load.columns) == load.submitted == len(ages)
    assert len(load.columns) == COLUMNS


def test_jobs_from_before_the_window_are_left_out() -> None:
    assert load_of([job(61), job(10)], NOW, complete=True).submitted == 1


def test_where_not_all_of_the_hour_was_seen_only_what_was_seen_is_shown() -> None:
    load = load_of([job(10), job(5)], NOW, complete=False)

    assert load.since == NOW - timedelta(minutes=10)


def test_a_young_plane_is_shown_closely() -> None:
    assert load_of([job(1)], NOW, complete=True).since == NOW - timedelta(minutes=5)
    assert load_of([], NOW, complete=True).since == NOW - timedelta(hours=1)


def test_failures_ends_and_times_are_counted() -> None:
    load = load_of([job(9), job(8, JobStatus.FAILED, waited=3), job(7, JobStatus.RUNNING)], NOW, complete=True)

    assert (load.submitted, load.ended, load.failed) == (3, 2, 1)
    assert (load.wait_seconds.half, load.wait_seconds.most) == (1, 3)
    assert load.run_seconds.half == 2


def test_of_nothing_there_are_no_percentiles() -> None:
    assert Percentiles.of([]) == Percentiles(None, None)


def test_the_agent_that_fails_most_comes_first_with_its_last_failure() -> None:
    def failure(agent: str, minutes_ago: float) -> RecentFailure:
        return RecentFailure(JobId(new_id()), TenantId("t"), agent, NOW - timedelta(minutes=minutes_ago), f"{minutes_ago}")

    found = failing_agents([failure("a", 1), failure("b", 3), failure("b", 2)])

    assert [(one.agent, one.failures, one.last.error_message) for one in found] == [("b", 2, "2"), ("a", 1, "1")]


def test_an_id_of_now_lies_behind_the_first_id_of_a_moment_ago() -> None:
    now = datetime.now(UTC)

    assert first_id_at(now - timedelta(seconds=1)) < new_id() < first_id_at(now + timedelta(seconds=5))
