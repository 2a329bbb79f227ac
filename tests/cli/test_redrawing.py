"""`--watch`: drawn anew when something has changed, left by Ctrl-C; the same for every command that has it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cortex_plane import Plane, Unavailable
from cortex_plane.cli import watch as redrawing
from tests.cli.conftest import Cortex
from tests.cli.processes import started
from tests.cli.test_terminal import in_a_terminal

RunIn = Callable[..., Any]

WATCHED = ["jobs list", "runs list", "queues list", "workers list", "approvals list", "schedules list"]


async def submit(plane: Plane) -> str:
    return str((await plane.submit("greet")).id)


async def cancel(plane: Plane) -> str:
    [job] = await plane.jobs.list()
    return await plane.jobs.cancel(job.id)


@pytest.fixture
def url(folder: Path, run_in: RunIn) -> str:
    url = f"sqlite:///{folder}/x.db"
    run_in(url, submit)
    return url


def test_a_document_for_each_change_comes_on_a_line_of_its_own(folder: Path, url: str, run_in: RunIn) -> None:
    with started("jobs", "list", "--watch", "--json", "--database-url", url, folder=folder) as watching:
        watching.wait_for_output("PENDING")
        job_id = run_in(url, submit)
        watching.wait_for_output(job_id)
        watching.signal(signal.SIGINT)
        code, rest = watching.ended()

    assert [len(json.loads(line)["jobs"]) for line in watching.lines] == [1, 2]
    assert code == 130
    assert rest.endswith("Interrupted.\n")


def test_a_pipe_gets_a_page_for_each_change_and_none_because_time_passes(folder: Path, url: str, run_in: RunIn) -> None:
    with started("jobs", "list", "--watch", "--database-url", url, folder=folder) as watching:
        watching.wait_for_output("PENDING")
        job_id = run_in(url, cancel)
        watching.wait_for_output("CANCELLED")
        watching.signal(signal.SIGINT)
        watching.ended()

    assert job_id in watching.lines[-1]
    assert [line.split()[2] if line.strip() else "" for line in watching.lines] == ["AGENT", "PENDING", "", "AGENT", "CANCELLED"]


def test_a_terminal_is_drawn_over_with_colours(folder: Path, url: str) -> None:
    seen = in_a_terminal(folder, "jobs", "list", "--watch", "--database-url", url, until="PENDING")

    assert "\x1b[34m○ PENDING" in seen
    assert seen.endswith("\x1b[?25hInterrupted.\r\n")


@pytest.mark.parametrize("line", WATCHED)
def test_every_command_that_lists_what_changes_can_be_watched(cortex: Cortex, url: str, line: str) -> None:
    with looks(1) as counted:
        result = cortex(*line.split(), "--watch", "--database-url", url)

    assert counted() == 1
    assert result.code == 130
    assert result.shown == cortex(*line.split(), "--database-url", url).shown
    assert "--watch" in cortex(*line.split(), "--help").out


def test_one_job_can_be_watched_too(cortex: Cortex, url: str, run_in: RunIn) -> None:
    job_id = run_in(url, submit)

    with looks(2) as counted:
        result = cortex("jobs", "show", job_id, "--watch", "--json", "--database-url", url)

    assert counted() == 2
    assert [json.loads(line)["job"]["id"] for line in result.out.splitlines()] == [job_id]


def test_what_has_not_changed_is_not_shown_again(cortex: Cortex, url: str) -> None:
    with looks(3) as counted:
        result = cortex("queues", "list", "--watch", "--json", "--database-url", url)

    assert counted() == 3
    assert len(result.out.splitlines()) == 1


def test_a_database_that_is_away_for_a_while_ends_nothing(cortex: Cortex, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["PENDING", Unavailable("The database is away."), Unavailable("The database is away."), "COMPLETED"])

    async def answer(command: Coroutine[Any, Any, int]) -> str:
        command.close()
        match next(answers):
            case Unavailable() as away:
                raise away
            case text:
                return json.dumps(text)

    monkeypatch.setattr(redrawing, "_printed_by", answer)
    with looks(4):
        result = cortex("jobs", "list", "--watch", "--json", "--database-url", url)

    assert result.out == '"PENDING"\n"COMPLETED"\n'
    assert result.err == "The database is away.\nInterrupted.\n"


def test_wrong_input_is_told_at_the_first_look(cortex: Cortex, url: str) -> None:
    result = cortex("jobs", "list", "--watch", "--status", "faild", "--database-url", url)

    assert (result.code, result.out) == (2, "")
    assert 'Did you mean "failed"?' in result.err


@contextmanager
def looks(number: int) -> Iterator[Callable[[], int]]:
    """Somebody who leaves after so many looks, without the seconds between."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == number:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redrawing, "asyncio", SimpleNamespace(sleep=sleep))
        yield lambda: len(slept)
