"""Which rule holds, and what may go: pure decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.retention.model import (
    Candidate,
    HeldBack,
    RetentionRule,
    RuleId,
    check_keep,
    deletable,
    expired_jobs,
    governing,
    too_young,
)

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
A, B, C = (JobId(name) for name in "abc")


def rule(keep: int = 0, **what: object) -> RetentionRule:
    return RetentionRule(RuleId(str(what)), keep, **what)  # type: ignore[arg-type]


def job(finished: int | None = 10, created: int = 20) -> Candidate:
    ended = None if finished is None else NOW - timedelta(seconds=finished)
    status = JobStatus.RUNNING if finished is None else JobStatus.FAILED
    return Candidate(A, TenantId("t"), "echo", status, NOW - timedelta(seconds=created), ended, NOW)


# From the most specific to the least.
RANKED = [
    rule(tenant_id="t", job_type="echo", status=JobStatus.FAILED),
    rule(tenant_id="t", job_type="echo"),
    rule(tenant_id="t", status=JobStatus.FAILED),
    rule(job_type="echo", status=JobStatus.FAILED),
    rule(tenant_id="t"),
    rule(job_type="echo"),
    rule(status=JobStatus.FAILED),
    rule(),
]


@given(st.sets(st.integers(0, len(RANKED) - 1)), st.randoms())
def test_the_most_specific_rule_governs_in_whatever_order_they_come(chosen: set[int], random: object) -> None:
    rules = [RANKED[place] for place in chosen]
    random.shuffle(rules)  # type: ignore[attr-defined]

    assert governing(rules, job()) == (RANKED[min(chosen)] if chosen else None)


def test_a_rule_for_others_does_not_govern() -> None:
    others = [rule(tenant_id="u"), rule(job_type="other"), rule(status=JobStatus.COMPLETED)]

    assert governing(others, job()) is None
    assert expired_jobs(others, [job()]) == []


@pytest.mark.parametrize(("keep", "goes"), [(9, True), (10, True), (11, False)])
def test_time_counts_from_the_end(keep: int, goes: bool) -> None:
    assert bool(expired_jobs([rule(keep)], [job(finished=10, created=1000)])) is goes


def test_what_has_not_ended_never_goes() -> None:
    assert expired_jobs([rule()], [job(finished=None)]) == []


def test_too_young_looks_at_the_shortest_rule_and_the_oldest_job() -> None:
    assert too_young([rule(21), rule(100)], [job(created=20), job(created=5)])
    assert not too_young([rule(20), rule(100)], [job(created=20), job(created=5)])


def test_a_chain_goes_from_its_beginning() -> None:
    free = [HeldBack(C, False, B), HeldBack(A, False, None), HeldBack(B, False, A)]

    assert deletable(free) == [A, B, C]
    assert deletable(free[:1]) == []
    assert deletable([HeldBack(A, True, None), HeldBack(B, False, A), HeldBack(C, False, B)]) == []
    assert deletable([HeldBack(A, False, None), HeldBack(B, True, A), HeldBack(C, False, B)]) == [A]


def test_part_of_a_second_counts_as_one() -> None:
    assert check_keep(0.1) == 1
    assert check_keep(timedelta(milliseconds=1500)) == 2
    assert check_keep(3) == 3
