"""`cortex jobs submit`: a job is stored with all that was asked for, and the next step is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Job, Plane
from cortex_plane.jobs.model import WorkerId
from cortex_plane.worker.model import NewWorker
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    """A database, of each kind, that knows the agents."""

    async def nothing(plane: Plane) -> None: ...

    run_in(database_url, nothing)
    return database_url


def the_job(run_in: RunIn, url: str, job_id: str) -> Job:
    job: Job = run_in(url, lambda plane: plane.jobs.get(job_id))
    return job


def test_the_id_and_the_next_step_are_shown(cortex: Cortex, url: str) -> None:
    result = cortex("jobs", "submit", "greet", "name=Ada", "--database-url", url)

    assert result.code == 0
    assert (
        result.shown
        == f"""\
Submitted greet as <id>
To follow it:  cortex jobs watch <id> --database-url {url}
"""
    )
    assert result.err == f"No worker is running that could take it. To start one:  cortex worker APP --database-url {url}\n"


def test_a_worker_that_could_take_it_is_noticed_while_it_lives(cortex: Cortex, url: str, run_in: RunIn) -> None:
    async def register(plane: Plane) -> None:
        store = plane.store
        await store.workers.register(NewWorker(WorkerId(plane._ids()), "dead:1", ("mail",), ("greet",), 5, 0.001))
        await store.workers.register(NewWorker(WorkerId(plane._ids()), "live:2", ("default",), ("greet",), 5, 60.0))

    run_in(url, register)

    assert cortex("jobs", "submit", "greet", "--database-url", url).err == ""
    assert cortex("jobs", "submit", "flaky", "--database-url", url).err.startswith("No worker is running that could take it.")
    assert cortex("jobs", "submit", "greet", "--queue", "mail", "--database-url", url).err.startswith("No worker is running")


def test_everything_that_was_asked_for_is_stored(cortex: Cortex, url: str, run_in: RunIn) -> None:
    words = "greet name=Ada --queue mail --priority -5 --run-at 2030-01-05T09:00+01:00 --serial-key ada --tag a --tag b"
    result = cortex(
        "jobs", "submit", *words.split(), "--max-retries", "7", "--run-timeout", "5m", "--json", "--database-url", url
    )

    document = json.loads(result.out)
    assert document["status"] == "PENDING"
    assert document["run_at"] == "2030-01-05T08:00:00+00:00"
    job = the_job(run_in, url, document["id"])
    assert job.payload == {"name": "Ada"}
    assert (job.queue, job.priority, job.serial_key, job.tags, job.max_retries) == ("mail", -5, "ada", ["a", "b"], 7)
    assert job.run_at == datetime(2030, 1, 5, 8, tzinfo=UTC)
    assert job.created_by == "cli:ada"


def test_a_delay_counts_from_now(cortex: Cortex, url: str, run_in: RunIn) -> None:
    result = cortex("jobs", "submit", "greet", "--delay", "1h30m", "--json", "--database-url", url)

    job = the_job(run_in, url, json.loads(result.out)["id"])
    assert job.run_at is not None
    assert job.run_at - job.created_at == timedelta(minutes=90)


@pytest.mark.parametrize(("said", "is_then"), [("2h", None), ("2099-01-05T18:00+01:00", datetime(2099, 1, 5, 17, tzinfo=UTC))])
def test_a_deadline_is_a_length_from_now_or_a_time(
    cortex: Cortex, url: str, run_in: RunIn, said: str, is_then: datetime | None
) -> None:
    result = cortex("jobs", "submit", "greet", "--deadline", said, "--json", "--database-url", url)

    job = the_job(run_in, url, json.loads(result.out)["id"])
    assert job.deadline_at == (is_then or job.created_at + timedelta(hours=2))
    assert "deadline" in cortex("jobs", "show", job.id, "--database-url", url).out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["gret"],
            3,
            (
                'There is no agent "gret". Did you mean "greet"? Known agents: flaky, greet, hopeless.\n'
                "If its app has never run, name it: --app file.py"
            ),
        ),
        (["greet", "--tenant", "nobody"], 3, 'There is no tenant "nobody".'),
        (["greet", "--max-retries", "1000"], 2, "max_retries must be a whole number from 0 to 100, not 1000."),
        (["greet", "--delay", "-5"], 2, "delay must be from 0 seconds to 100 years, not -5 s."),
        (["greet", "--delay", "5", "--run-at", "2030-01-05"], 2, "Give run_at or delay, not both."),
        (["greet", "--run-timeout", "0"], 2, "run_timeout must be more than 0 seconds, and at most 100 years, not 0 s."),
        (
            ["greet", "--deadline", "soon"],
            2,
            "--deadline 'soon' is neither a duration nor a time. Write 90, 5m, 2h or 2026-01-05T09:00+01:00.",
        ),
        (["greet", "--queue", ""], 2, "queue must be text of 1 to 200 characters, not ''."),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_a_reason(
    cortex: Cortex, url: str, words: list[str], code: int, message: str
) -> None:
    result = cortex("jobs", "submit", *words, "--database-url", url)

    assert (result.code, result.out, result.err) == (code, "", f"Error: {message}\n")


APP = """
from cortex_plane import Plane

plane = Plane()


@plane.agent("greet")
async def greet(ctx, name):
    return name
"""


def test_an_app_makes_its_agents_known_and_checks_their_arguments(cortex: Cortex, folder: Path) -> None:
    (folder / "app.py").write_text(APP)

    assert cortex("jobs", "submit", "greet", "name=Ada", "--app", "app.py").code == 0
    wrong = cortex("jobs", "submit", "greet", "nam=Ada", "--app", "app.py")

    assert wrong.code == 2
    assert wrong.err == 'Error: payload.nam is not an argument of agent "greet". Did you mean "name"? It takes: name.\n'


COUNTING = """
from cortex_plane import Plane

plane = Plane()


@plane.agent("count")
async def count(ctx, n: int, version: str = ""):
    return n
"""


def test_arguments_are_checked_without_the_app_once_it_is_known(cortex: Cortex, folder: Path) -> None:
    (folder / "app.py").write_text(COUNTING)
    assert cortex("jobs", "submit", "count", "n=1", "--app", "app.py").code == 0

    wrong = cortex("jobs", "submit", "count", "n=five")
    large = cortex("jobs", "submit", "count", '{"n": 18446744073709551616}')

    assert (wrong.code, wrong.err) == (2, "Error: payload.n must be a whole number, not 'five'.\n")
    assert large.code == 2
    assert "payload.n is an integer beyond 64 bits" in large.err


def test_a_pair_is_text_where_the_agent_takes_text(cortex: Cortex, folder: Path) -> None:
    (folder / "app.py").write_text(COUNTING)

    submitted = cortex("jobs", "submit", "count", "n=1", "version=1.10", "--json", "--app", "app.py")

    shown = cortex("jobs", "show", json.loads(submitted.out)["id"], "--json").out
    assert json.loads(shown)["job"]["payload"] == {"n": 1, "version": "1.10"}
    assert cortex("jobs", "submit", "count", "n=1.5").err == "Error: payload.n must be a whole number, not 1.5.\n"


def test_nothing_is_made_when_there_is_no_database_to_ask(cortex: Cortex, folder: Path) -> None:
    result = cortex("jobs", "submit", "greet")

    assert result.code == 5
    assert list(folder.iterdir()) == []


def test_a_password_is_never_shown(cortex: Cortex, folder: Path, cluster: Any, postgres_url: str, run_in: RunIn) -> None:
    with_password = postgres_url.replace("postgres@", "postgres:geheim@")

    async def nothing(plane: Plane) -> None: ...

    run_in(postgres_url, nothing)
    result = cortex("jobs", "submit", "greet", "--database-url", with_password)

    assert result.code == 0
    assert "postgres:***@" in result.out
    assert "geheim" not in result.out + result.err
