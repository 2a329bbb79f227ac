"""Seven states, thirteen transitions, nothing else."""

from __future__ import annotations

import re
from itertools import product

import pytest

from cortex_plane.jobs.states import (
    RUN_ENDS,
    TERMINAL,
    TRANSITIONS,
    JobStatus,
    RunStatus,
    WaitReason,
    WorkerStatus,
    may_become,
    mermaid,
)

# Copied from the specification, not from the code.
LISTED = {
    ("PENDING", "RUNNING"),
    ("PENDING", "CANCELLED"),
    ("RUNNING", "COMPLETED"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "WAITING_FOR_APPROVAL"),
    ("RUNNING", "RETRY"),
    ("RUNNING", "CANCELLED"),
    ("RETRY", "RUNNING"),
    ("RETRY", "CANCELLED"),
    ("RETRY", "FAILED"),
    ("WAITING_FOR_APPROVAL", "RUNNING"),
    ("WAITING_FOR_APPROVAL", "FAILED"),
    ("WAITING_FOR_APPROVAL", "CANCELLED"),
}
STATES = ["PENDING", "RUNNING", "COMPLETED", "FAILED", "WAITING_FOR_APPROVAL", "RETRY", "CANCELLED"]


def test_there_are_the_seven_states_of_the_specification() -> None:
    assert [str(status) for status in JobStatus] == STATES


def test_there_are_the_thirteen_transitions_of_the_specification() -> None:
    assert {(str(before), str(after)) for before, reachable in TRANSITIONS.items() for after in reachable} == LISTED
    assert len(LISTED) == 13


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_a_job_may_become_only_what_is_listed_or_stay_what_it_is(before: str, after: str) -> None:
    assert may_become(JobStatus(before), JobStatus(after)) == (before == after or (before, after) in LISTED)


def test_terminal_states_lead_nowhere_and_all_others_lead_somewhere() -> None:
    assert {status for status in JobStatus if not TRANSITIONS[status]} == TERMINAL
    assert {status for status in JobStatus if status.is_terminal} == TERMINAL
    assert {"COMPLETED", "FAILED", "CANCELLED"} == TERMINAL


def test_every_state_can_be_reached_from_pending() -> None:
    reached, todo = {JobStatus.PENDING}, [JobStatus.PENDING]
    while todo:
        fresh = set(TRANSITIONS[todo.pop()]) - reached
        reached |= fresh
        todo += fresh

    assert reached == set(JobStatus)


def test_every_state_can_still_end() -> None:
    for status in set(JobStatus) - TERMINAL:
        assert JobStatus.CANCELLED in TRANSITIONS[status]


def test_the_diagram_shows_the_birth_each_transition_and_each_end_once() -> None:
    lines = mermaid().splitlines()
    arrows = [found.groups() for line in lines if (found := re.fullmatch(r"    (\S+) --> (\S+)(?: : .+)?", line))]

    assert lines[0] == "stateDiagram-v2"
    assert sorted(arrows) == sorted(LISTED | {("[*]", "PENDING")} | {(end, "[*]") for end in TERMINAL})
    assert len(arrows) == len(lines) - 1


def test_every_way_out_of_running_closes_the_run() -> None:
    ways = (set(TRANSITIONS[JobStatus.RUNNING]) - {JobStatus.RETRY}) | set(WaitReason)

    assert set(RUN_ENDS) == ways
    assert RunStatus.RUNNING not in RUN_ENDS.values()


def test_a_run_and_a_worker_have_the_statuses_of_the_design() -> None:
    assert {str(status) for status in RunStatus} == {
        "RUNNING",
        "COMPLETED",
        "FAILED",
        "SKIPPED",
        "CANCELLED",
        "WAITING",
        "SLEEPING",
        "INTERRUPTED",
    }
    assert {str(status) for status in WorkerStatus} == {"LIVE", "LOST", "STOPPED"}
