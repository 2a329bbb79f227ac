"""`cortex templates` and `cortex groups`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.groups.service import GroupService
from cortex_plane.jobs.fields import Submission
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    async def open_it(plane: Plane) -> None:
        await plane.jobs.list()

    run_in(database_url, open_it)
    return database_url


@pytest.fixture
def group_id(url: str, run_in: RunIn) -> str:
    async def fill(plane: Plane) -> str:
        members = [Submission("greet", {"name": name}) for name in ("Ada", "Bob")]
        return str((await GroupService(plane).submit(members, mode="sequential", name="greetings", created_by="ada")).id)

    found: str = run_in(url, fill)
    return found


# -- templates -----------------------------------------------------------------------------------


def test_a_template_is_saved_shown_and_submitted(cortex: Cortex, url: str) -> None:
    saved = cortex("templates", "save", "hello", "greet", "name=Ada", "--queue", "side", "--tag", "x", "--database-url", url)
    shown = cortex("templates", "show", "hello", "--database-url", url)
    submitted = cortex("templates", "submit", "hello", "name=Bob", "--json", "--database-url", url)

    assert (saved.code, saved.err) == (0, "")
    assert saved.out == (
        f"Saved hello, version 1\nTo submit a job from it:  cortex templates submit hello --database-url {url}\n"
    )
    assert shown.shown == SHOWN
    job = json.loads(submitted.out)
    assert (job["agent"], job["queue"], job["status"]) == ("greet", "side", "PENDING")
    assert '{"name": "Bob"}' in cortex("jobs", "show", job["id"], "--database-url", url).out


SHOWN = """\
Template hello
  agent  greet
  params  {"name": "Ada"}
  queue  side
  tags  x
  version  1
  by  cli:ada
  created  <time> UTC, <ago>
"""


def test_a_template_shows_the_options_that_it_sets(cortex: Cortex, url: str) -> None:
    options = ["--priority", "0", "--max-retries", "0", "--run-timeout", "90", "--deadline", "2h"]
    cortex("templates", "save", "hello", "greet", *options, "--database-url", url)

    shown = cortex("templates", "show", "hello", "--database-url", url).shown

    assert "  max retries  0\n  run timeout <span>\n  deadline <span> after its submission\n" in shown
    assert "priority" not in shown


def test_every_option_of_a_job_can_be_given_when_a_template_is_submitted(cortex: Cortex, url: str) -> None:
    cortex("templates", "save", "hello", "greet", "--priority", "3", "--tag", "x", "--database-url", url)
    options = ["--serial-key", "k", "--run-at", "2040-01-05T09:00", "--deadline", "2040-01-06T09:00", "--run-timeout", "5m"]

    submitted = cortex("templates", "submit", "hello", *options, "--priority", "0", "--json", "--database-url", url)

    found = cortex("jobs", "show", json.loads(submitted.out)["id"], "--json", "--database-url", url)
    job = json.loads(found.out)["job"]
    assert (job["serial_key"], job["timeout_seconds"], job["priority"], job["tags"]) == ("k", 300, 0, ["x"])
    assert (job["run_at"][:10], job["deadline_at"][:10]) == ("2040-01-05", "2040-01-06")


def test_templates_are_listed_by_name(cortex: Cortex, url: str) -> None:
    empty = cortex("templates", "list", "--database-url", url)
    for name in ("zeta", "alpha"):
        cortex("templates", "save", name, "greet", "--database-url", url)
    cortex("templates", "save", "zeta", "greet", "name=Ada", "--database-url", url)

    result = cortex("templates", "list", "--database-url", url)

    assert empty.out.startswith("There are no templates yet. To save one:  cortex templates save NAME AGENT key=value")
    assert [line.split()[:3] for line in result.out.splitlines()[1:]] == [["alpha", "1", "greet"], ["zeta", "2", "greet"]]
    assert [one["name"] for one in json.loads(cortex("templates", "list", "--json", "--database-url", url).out)["templates"]] == [
        "alpha",
        "zeta",
    ]


@pytest.mark.parametrize("command", ["show", "remove", "submit"])
def test_a_template_that_is_nearly_named_is_suggested(cortex: Cortex, url: str, command: str) -> None:
    cortex("templates", "save", "nightly", "greet", "--database-url", url)

    result = cortex("templates", command, "nigthly", "--database-url", url)

    assert (result.code, result.out) == (3, "")
    assert result.err.startswith('Error: There is no template "nigthly". Did you mean "nightly"?')


def test_a_removed_template_is_gone(cortex: Cortex, url: str) -> None:
    cortex("templates", "save", "nightly", "greet", "--database-url", url)

    assert cortex("templates", "remove", "nightly", "--database-url", url).out == "Removed nightly\n"
    assert cortex("templates", "show", "nightly", "--database-url", url).code == 3


# -- groups --------------------------------------------------------------------------------------


def test_a_group_is_shown_with_its_members(cortex: Cortex, url: str, group_id: str) -> None:
    result = cortex("groups", "show", group_id, "--database-url", url)

    assert (result.code, result.err) == (0, "")
    assert result.shown == GROUP


GROUP = """\
Group <id> ○ PENDING
  name  greetings
  mode  sequential
  on failure  stop
  members  2: 1 waiting, 1 held
  by  ada
  created  <time> UTC, <ago>

Members
  ID  STATUS  AGENT  TRIES
  <id>  ○ PENDING  greet  0
  <id>  ○ PENDING  greet  0  held
"""


def test_groups_are_listed(cortex: Cortex, url: str, group_id: str) -> None:
    result = cortex("groups", "list", "--database-url", url)
    document = json.loads(cortex("groups", "list", "--json", "--database-url", url).out)

    assert result.shown == "ID  STATUS  MODE  ENDED  AGE  NAME\n<id>  ○ PENDING  sequential  0/2 <span>  greetings\n"
    assert [(one["id"], one["status"], one["tally"]["held"]) for one in document["groups"]] == [(group_id, "PENDING", 1)]
    assert cortex("groups", "list", "--before", group_id, "--database-url", url).out == "There are no older groups.\n"


def test_a_group_is_cancelled_once(cortex: Cortex, url: str, group_id: str) -> None:
    first = cortex("groups", "cancel", group_id, "--reason", "wrong", "--database-url", url)
    second = cortex("groups", "cancel", group_id, "--database-url", url)

    assert first.out.startswith(f"Cancelled 2 members of group {group_id}\n")
    assert (second.code, second.out) == (4, "")
    assert second.err == f"Error: Group {group_id} is already CANCELLED: no member is left to cancel.\n"


def test_a_group_that_never_was_is_not_found(cortex: Cortex, url: str) -> None:
    for command in ("show", "cancel"):
        result = cortex("groups", command, "01234567-0000-7000-8000-000000000000", "--database-url", url)

        assert (result.code, result.out) == (3, "")
        assert "cortex groups list" in result.err
