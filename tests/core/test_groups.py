"""Where a group stands, and what is due for it: tables, without any database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.groups.model import Group, GroupId, GroupStatus, Step, Tally, group_status, next_step, summary
from cortex_plane.jobs.model import TenantId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = Group(GroupId("g"), TenantId("t"), None, "parallel", "stop", None, None, None, NOW, None, stopping=False, tally=Tally())
COUNTS = st.integers(0, 3)
TALLIES = st.builds(Tally, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)


@pytest.mark.parametrize(
    ("tally", "status"),
    [
        (Tally(waiting=3), GroupStatus.PENDING),
        (Tally(waiting=1, held=2), GroupStatus.PENDING),
        (Tally(held=2), GroupStatus.PENDING),
        (Tally(waiting=2, under_way=1), GroupStatus.RUNNING),
        (Tally(under_way=1), GroupStatus.RUNNING),
        (Tally(held=1, completed=1), GroupStatus.RUNNING),
        (Tally(waiting=1, failed=1), GroupStatus.RUNNING),
        (Tally(waiting=1, cancelled=1), GroupStatus.RUNNING),
        (Tally(under_way=1, failed=2, cancelled=1), GroupStatus.RUNNING),
        (Tally(completed=3), GroupStatus.COMPLETED),
        (Tally(completed=2, failed=1), GroupStatus.FAILED),
        (Tally(failed=1, cancelled=2), GroupStatus.FAILED),
        (Tally(completed=2, cancelled=1), GroupStatus.CANCELLED),
        (Tally(cancelled=3), GroupStatus.CANCELLED),
    ],
)
def test_the_status_follows_from_the_members(tally: Tally, status: GroupStatus) -> None:
    assert group_status(tally) is status


STOP, SKIP = replace(GROUP, on_failure="stop"), replace(GROUP, on_failure="skip")
CONTINUE, STOPPING = replace(GROUP, on_failure="continue"), replace(GROUP, stopping=True)
FINISHED = replace(GROUP, finished_at=NOW)


@pytest.mark.parametrize(
    ("group", "tally", "step"),
    [
        (STOP, Tally(waiting=2), Step.REST),
        (STOP, Tally(under_way=1, completed=1), Step.REST),
        (STOP, Tally(waiting=1, failed=1), Step.STOP),
        (STOP, Tally(under_way=1, failed=1), Step.STOP),
        (STOP, Tally(held=1, failed=1), Step.STOP),
        (SKIP, Tally(held=1, failed=1), Step.SKIP),
        (CONTINUE, Tally(waiting=1, failed=1), Step.REST),
        (CONTINUE, Tally(held=1, failed=1), Step.LET_GO),
        (STOPPING, Tally(under_way=1, failed=1), Step.REST),
        (STOPPING, Tally(held=1, failed=1), Step.LET_GO),
        (STOP, Tally(held=1, cancelled=1), Step.LET_GO),
        (STOP, Tally(held=2, completed=1), Step.LET_GO),
        (STOP, Tally(held=2, waiting=1), Step.REST),
        (STOP, Tally(held=2, under_way=1), Step.REST),
        (STOP, Tally(completed=1, failed=1), Step.FINISH),
        (CONTINUE, Tally(completed=2), Step.FINISH),
        (FINISHED, Tally(completed=2), Step.REST),
        (FINISHED, Tally(held=1, completed=1), Step.LET_GO),
    ],
)
def test_what_is_due_follows_from_the_members(group: Group, tally: Tally, step: Step) -> None:
    assert next_step(replace(group, tally=tally)) is step


@given(TALLIES)
def test_an_open_group_is_never_said_to_have_ended(tally: Tally) -> None:
    assert (group_status(tally) in (GroupStatus.PENDING, GroupStatus.RUNNING)) == (tally.open > 0)


@given(TALLIES, st.sampled_from([STOP, SKIP, CONTINUE]))
def test_a_sequential_group_never_rests_while_nothing_of_it_can_run(tally: Tally, group: Group) -> None:
    stuck = tally.open > 0 and tally.waiting + tally.under_way == 0

    assert not (stuck and next_step(replace(group, tally=tally)) is Step.REST)


def test_the_callback_is_told_how_the_group_ended() -> None:
    ended = replace(GROUP, tally=Tally(completed=2, failed=1, cancelled=4))

    assert summary(ended) == {"id": "g", "status": "FAILED", "completed": 2, "failed": 1, "cancelled": 4}
