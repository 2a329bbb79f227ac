"""`cortex gate`, `cortex queues`, and `cortex jobs why`, `move` and `priority`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex, Result

RunIn = Callable[..., Any]


@pytest.fixture
def jobs(database_url: str, run_in: RunIn) -> list[str]:
    async def fill(plane: Plane) -> list[str]:
        return [str((await plane.submit("greet", {"name": name})).id) for name in ("Ada", "Bob", "Cy")]

    found: list[str] = run_in(database_url, fill)
    return found


@pytest.fixture
def run(cortex: Cortex, database_url: str, jobs: list[str]) -> Callable[..., Result]:
    return lambda *words: cortex(*words, "--database-url", database_url)


def test_a_closed_gate_says_who_and_why_and_is_why_nothing_runs(run: Callable[..., Result], jobs: list[str]) -> None:
    closed = run("gate", "close", "--reason", "a fire")
    again = run("gate", "close")

    assert (closed.code, closed.out.splitlines()[0]) == (0, "The gate is closed.")
    assert again.out.splitlines()[0] == "The gate was closed already."
    status = run("gate", "status")
    assert status.out.startswith("The gate is closed.\n")
    assert "paused by cli:ada since " in status.out
    assert status.out.rstrip().endswith(": a fire")
    assert "The gate was closed by cli:ada since " in run("jobs", "why", jobs[0]).out
    assert run("gate", "open").out == "The gate is open.\n"
    assert json.loads(run("gate", "status", "--json").out) == {"open": True, "controls": []}


def test_a_queue_is_paused_limited_and_shared(run: Callable[..., Result]) -> None:
    assert run("queues", "pause", "default", "--reason", "slow").out == 'Paused queue "default".\n'
    assert run("queues", "pause", "default").out == 'Already paused: queue "default".\n'
    assert run("queues", "limit", "default", "--running", "5").out == 'Limited queue "default" to 5 running jobs.\n'
    assert run("queues", "fair-share", "default").out == 'Enabled fair share of queue "default".\n'

    [queue] = json.loads(run("queues", "list", "--json").out)
    assert (queue["queue"], queue["ready"], queue["running"]) == ("default", 3, 0)
    assert queue["set"].endswith(": slow; at most 5 running; fair share")
    assert run("queues", "resume", "default").out == 'Resumed queue "default".\n'
    assert run("queues", "limit", "default").out == 'Removed the limit of queue "default".\n'


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["queues", "pause"], 2, "Give a queue, --agent NAME or --tenant NAME."),
        (["queues", "pause", "a", "--agent", "greet"], 2, "Give a queue, --agent NAME or --tenant NAME."),
        (["queues", "pause", "--agent", "gret"], 3, 'There is no agent "gret". Did you mean "greet"?'),
        (["queues", "pause", "--tenant", "nobody"], 3, 'There is no tenant "nobody".'),
        (["queues", "limit", "a", "--running", "0"], 2, "max_running must be a whole number from 1 to 1,000,000, not 0."),
        (["queues", "pause", "cortex"], 2, 'Queue "cortex" is the plane\'s own and cannot be paused.'),
    ],
)
def test_a_wrong_wish_is_explained(run: Callable[..., Result], words: list[str], code: int, message: str) -> None:
    result = run(*words)

    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_jobs_are_moved_and_ranked(run: Callable[..., Result], jobs: list[str]) -> None:
    assert run("jobs", "move", jobs[2], "--front").out == f"Moved {jobs[2]}\n"
    assert run("jobs", "priority", jobs[1], "7").out == f"{jobs[1]} has priority 7\n"

    reasons = {job: json.loads(run("jobs", "why", job, "--json").out) for job in jobs}
    ahead = {job: [reason["message"] for reason in reasons[job] if reason["code"] == "behind_others"] for job in jobs}
    assert ahead == {jobs[1]: [], jobs[2]: ["1 job is before it in the queue."], jobs[0]: ["2 jobs are before it in the queue."]}
    assert run("jobs", "move", jobs[0]).err == "Error: Give exactly one of before, after, front and back.\n"
    assert run("jobs", "move", jobs[0], "--before", jobs[0]).code == 2


def test_nothing_is_reserved_until_somebody_reserves(run: Callable[..., Result]) -> None:
    assert run("queues", "reservations").out == "No queue is reserved.\n"
    assert run("queues", "release", "01900000-0000-7000-8000-000000000000").code == 3
