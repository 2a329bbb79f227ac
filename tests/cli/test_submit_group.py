"""`cortex groups submit`: a file becomes a group, and every mistake in it is named with its member and field."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Job, Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    async def open_it(plane: Plane) -> None:
        await plane.jobs.list()

    run_in(database_url, open_it)
    return database_url


def member(**fields: Any) -> dict[str, Any]:
    return {"agent": "greet", "payload": {"name": "Ada"}, **fields}


def test_a_file_becomes_a_group_and_the_next_step_is_shown(cortex: Cortex, url: str, folder: Path, run_in: RunIn) -> None:
    file = folder / "group.json"
    second = member(priority=5, delay="5m", run_timeout=90, deadline="2h", tags=["x"], serial_key="s", max_retries=1, run_at=None)
    file.write_text(json.dumps({"members": [member(), second], "mode": "sequential", "name": "greetings"}))

    result = cortex("groups", "submit", "group.json", "--database-url", url)

    assert (result.code, result.err) == (0, "")
    assert result.shown == (f"Submitted 2 jobs as group <id>\nTo look at it:  cortex groups show <id> --database-url {url}\n")
    [group] = json.loads(cortex("groups", "list", "--json", "--database-url", url).out)["groups"]
    assert (group["name"], group["mode"], group["on_failure"], group["created_by"]) == (
        *("greetings", "sequential", "stop"),
        "cli:ada",
    )
    newest, _ = json.loads(cortex("jobs", "list", "--json", "--database-url", url).out)["jobs"]
    job: Job = run_in(url, lambda plane: plane.jobs.get(newest["id"]))
    assert (job.priority, job.tags, job.serial_key, job.max_retries, job.created_by) == (5, ["x"], "s", 1, "cli:ada")
    assert job.run_at is not None
    assert round((job.run_at - job.created_at).total_seconds()) == 300
    assert job.deadline_at is not None
    assert round((job.deadline_at - job.created_at).total_seconds()) == 7200


def test_a_group_comes_from_stdin_and_answers_in_json(cortex: Cortex, url: str) -> None:
    asked = {"members": [member()], "callback": {"agent": "greet"}, "on_failure": "skip"}

    result = cortex("groups", "submit", "@-", "--json", "--database-url", url, stdin=json.dumps(asked))

    document = json.loads(result.out)
    assert (result.code, document["group"]["status"], document["group"]["on_failure"]) == (0, "PENDING", "skip")
    assert [one["job_type"] for one in document["members"]] == ["greet"]
    assert document["group"]["callback"]["agent"] == "greet"


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ([], 2, "The group must be a JSON object, not []."),
        ({}, 2, "members must be a list of jobs."),
        ({"members": []}, 2, "A group needs at least one member."),
        ({"members": [member()], "mod": "x"}, 2, 'The group has no field "mod". Did you mean "mode"?'),
        ({"members": [member()], "mode": "serial"}, 2, "mode must be one of parallel, sequential, not 'serial'."),
        ({"members": [member()], "name": ""}, 2, "name must be text of 1 to 200 characters, not ''."),
        ({"members": [member(), "greet"]}, 2, "members[1] must be a JSON object, not 'greet'."),
        ({"members": [member(), {}]}, 2, "members[1].agent is missing"),
        ({"members": [member(priorty=1)]}, 2, 'members[0] has no field "priorty". Did you mean "priority"?'),
        ({"members": [member(), member(priority="high")]}, 2, "members[1]: priority must be a whole number"),
        ({"members": [member(), member(payload=[1])]}, 2, "members[1]: payload must be a dict"),
        ({"members": [member(delay="soon")]}, 2, "members[0].delay is 'soon'. Write 90, 5m or 1h30m."),
        ({"members": [member(run_at="noon")]}, 2, "members[0].run_at is 'noon'. Write 2026-01-05T09:00"),
        ({"members": [member(), member(agent="gret")]}, 3, 'members[1].agent: There is no agent "gret". Did you mean "greet"?'),
        ({"members": [member()], "callback": {"agent": "tell"}}, 3, 'callback.agent: There is no agent "tell".'),
        ({"members": [member()], "callback": {"agent": "greet", "job_key": "k"}}, 2, "callback is submitted once"),
    ],
)
def test_a_mistake_is_named_with_its_member_and_field(cortex: Cortex, url: str, asked: object, code: int, message: str) -> None:
    result = cortex("groups", "submit", "@-", "--database-url", url, stdin=json.dumps(asked))

    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"Error: {message}")
    assert json.loads(cortex("jobs", "list", "--json", "--database-url", url).out)["jobs"] == []


def test_a_file_that_is_not_there_or_no_json_is_named(cortex: Cortex, url: str, folder: Path) -> None:
    (folder / "broken.json").write_text("{")

    missing = cortex("groups", "submit", "nowhere.json", "--database-url", url)
    broken = cortex("groups", "submit", "broken.json", "--database-url", url)

    assert (missing.code, missing.err) == (3, f"Error: There is no file nowhere.json. You are in {folder}.\n")
    assert broken.code == 2
    assert broken.err.startswith("Error: broken.json is not valid JSON: ")


@contextmanager
def a_worker(run_in: RunIn, url: str) -> Iterator[None]:
    known, stop = threading.Event(), threading.Event()

    async def work_until_told(plane: Plane) -> None:
        known.set()
        working = asyncio.create_task(plane.run_worker(queues=["default"]))
        await asyncio.to_thread(stop.wait, 50)
        plane.stop_workers()
        await working

    worker = threading.Thread(target=lambda: run_in(url, work_until_told))
    worker.start()
    known.wait(20)
    try:
        yield
    finally:
        stop.set()
        worker.join()


def test_submit_and_wait_ends_as_the_group_ends(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    hopeless = {"agent": "hopeless", "queue": "default"}
    with a_worker(run_in, database_url):
        words = ("groups", "submit", "@-", "--wait", "--database-url", database_url)
        done = cortex(*words, stdin=json.dumps({"members": [member(), member()], "mode": "sequential"}))
        failed = cortex(*words, "--json", stdin=json.dumps({"members": [hopeless, member()], "mode": "sequential"}))

    assert (done.code, done.shown) == (0, WAITED)
    document = json.loads(failed.out)
    assert (failed.code, document["group"]["status"]) == (7, "FAILED")
    assert [one["status"] for one in document["members"]] == ["FAILED", "CANCELLED"]


WAITED = """\
Submitted 2 jobs as group <id>
Group <id> ✓ COMPLETED
  mode  sequential
  on failure  stop
  members  2: 2 completed
  by  cli:ada
  created  <time> UTC, <ago>
  finished  <time> UTC, <ago>

Members
  ID  STATUS  AGENT  TRIES
  <id>  ✓ COMPLETED  greet  1
  <id>  ✓ COMPLETED  greet  1
"""


def test_a_job_shows_its_group_and_its_template(cortex: Cortex, url: str) -> None:
    result = cortex("groups", "submit", "@-", "--json", "--database-url", url, stdin=json.dumps({"members": [member()]}))
    document = json.loads(result.out)
    cortex("templates", "save", "hello", "greet", "--database-url", url)
    templated = json.loads(cortex("templates", "submit", "hello", "--json", "--database-url", url).out)["id"]

    in_group = cortex("jobs", "show", document["members"][0]["id"], "--database-url", url)
    of_template = cortex("jobs", "show", templated, "--database-url", url)

    assert document["group"]["id"] in in_group.out
    assert "\n  group  <id>\n" in in_group.shown
    assert "\n  template  <id>\n" in of_template.shown
    assert "\n  template" not in in_group.shown
