"""`cortex jobs list`: newest first, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    async def fill(plane: Plane) -> None:
        for agent in ("greet", "flaky", "hopeless"):
            await plane.submit(agent)
        await plane.run_worker(until_idle=True)
        later = await plane.submit("greet", {}, delay=3600)
        await plane.submit("greet", {}, queue="mail", delay=3600)
        await plane.jobs.cancel(later.id)

    run_in(database_url, fill)
    return database_url


LIST = """\
ID  STATUS  AGENT  QUEUE  TRIES  AGE
<id>  ○ PENDING  greet  mail  0 <span>
<id>  ⊘ CANCELLED  greet  default  0 <span>
<id>  ✗ FAILED  hopeless  reports  1 <span>  no such report
<id>  ✗ FAILED  flaky  default  2 <span>  not today
<id>  ✓ COMPLETED  greet  default  1 <span>
"""


def test_jobs_are_listed_newest_first(cortex: Cortex, url: str) -> None:
    result = cortex("jobs", "list", "--database-url", url)

    assert (result.code, result.err) == (0, "")
    assert result.shown == LIST


def test_nothing_is_wider_than_the_terminal(cortex: Cortex, url: str) -> None:
    result = cortex("jobs", "list", "--database-url", url)

    assert max(len(line) for line in result.out.splitlines()) <= 100
    assert all(len(line) == len(line.rstrip()) for line in result.out.splitlines())


@pytest.mark.parametrize(
    ("filters", "agents"),
    [
        (["--status", "failed"], ["hopeless", "flaky"]),
        (["--status", "FAILED", "--agent", "flaky"], ["flaky"]),
        (["--queue", "mail"], ["greet"]),
        (["--agent", "greet", "--status", "cancelled"], ["greet"]),
        (["--status", "waiting-for-approval"], []),
    ],
)
def test_filters_narrow_the_list(cortex: Cortex, url: str, filters: list[str], agents: list[str]) -> None:
    result = cortex("jobs", "list", *filters, "--json", "--database-url", url)

    assert [job["job_type"] for job in json.loads(result.out)["jobs"]] == agents


def test_a_page_ends_with_the_way_to_the_next(cortex: Cortex, url: str) -> None:
    first = cortex("jobs", "list", "--limit", "3", "--database-url", url)
    last_id = first.out.splitlines()[3].split()[0]
    rest = cortex("jobs", "list", "--before", last_id, "--database-url", url)

    assert first.shown.splitlines()[-1] == f"There are more:  cortex jobs list --before <id> --database-url {url}"
    assert [line.split()[3] for line in rest.shown.splitlines()[1:]] == ["flaky", "greet"]


def test_json_says_where_the_next_page_begins(cortex: Cortex, url: str) -> None:
    first = json.loads(cortex("jobs", "list", "--limit", "3", "--json", "--database-url", url).out)
    rest = json.loads(cortex("jobs", "list", "--before", first["next_before"], "--json", "--database-url", url).out)

    assert first["next_before"] == first["jobs"][-1]["id"]
    assert (len(first["jobs"]), len(rest["jobs"]), rest["next_before"]) == (3, 2, None)
    assert set(first["jobs"][0]) == {
        "id",
        "job_type",
        "queue",
        "status",
        "label",
        "status_text",
        "priority",
        "attempt",
        "tries",
        "wait_reason",
        "error_message",
        "created_at",
        "updated_at",
        "finished_at",
    }


def test_no_job_fits_is_said_plainly(cortex: Cortex, url: str) -> None:
    result = cortex("jobs", "list", "--status", "running", "--database-url", url)

    assert (result.code, result.out) == (0, "No job fits.\n")


def test_an_unknown_agent_is_not_an_empty_list(cortex: Cortex, url: str) -> None:
    result = cortex("jobs", "list", "--agent", "gret", "--database-url", url)

    assert result.code == 3
    assert 'There is no agent "gret". Did you mean "greet"?' in result.err


def test_an_empty_database_says_what_to_do(cortex: Cortex, folder: Path) -> None:
    cortex("db", "upgrade")

    result = cortex("jobs", "list")

    assert (result.code, result.out) == (0, "There are no jobs yet. To submit one:  cortex jobs submit AGENT key=value\n")


def test_looking_at_a_database_that_does_not_exist_does_not_make_it(cortex: Cortex, folder: Path) -> None:
    result = cortex("jobs", "list")

    assert (result.code, result.out) == (5, "")
    assert (
        result.err
        == """\
Error: There is no database file cortex.db. Create it with cortex db upgrade, or start a worker: cortex worker APP
To use another database, pass --database-url or set CORTEX_DATABASE_URL. To use a server, pass --server.
"""
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--tag", "night"], 1),
        (["--text", "OTTERS"], 2),
        (["--text", "otters", "--tag", "night"], 1),
        (["--since", "2000-01-01", "--until", "2200-01-01T00:00+01:00"], 3),
        (["--until", "2000-01-01"], 0),
        (["--tenant", "acme"], 1),
        (["--tenant", "acme", "--tag", "night"], 0),
    ],
)
def test_jobs_are_found_by_label_words_time_and_tenant(
    cortex: Cortex, database_url: str, run_in: RunIn, filters: list[str], found: int
) -> None:
    async def fill(plane: Plane) -> None:
        await plane.tenants.add("acme")
        await plane.submit("greet", {"name": "otters"}, tags=["night"])
        await plane.submit("greet", {"name": "Otters"})
        await plane.submit("greet", {"name": "beavers"}, tenant="acme")

    run_in(database_url, fill)

    listed = json.loads(cortex("jobs", "list", *filters, "--json", "--database-url", database_url).out)

    assert len(listed["jobs"]) == found


def test_the_planes_own_jobs_are_listed_only_where_they_are_named(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    async def fill(plane: Plane) -> None:
        await plane.schedules.add("nightly", "agent:greet", "0 3 * * *")

    run_in(database_url, fill)

    def listed(*filters: str) -> list[str]:
        result = cortex("jobs", "list", *filters, "--json", "--database-url", database_url)
        return [job["job_type"] for job in json.loads(result.out)["jobs"]]

    assert listed() == []
    assert listed("--queue", "cortex") == ["cortex.slot"]
    assert listed("--agent", "cortex.slot") == ["cortex.slot"]


def test_a_list_looks_at_a_bounded_number_of_jobs_and_says_how_to_go_on(
    cortex: Cortex, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.jobs.search.LOOKED_THROUGH", 1)
    monkeypatch.setattr("cortex_plane.jobs.search.BATCH", 2)
    result = cortex("jobs", "list", "--text", "nowhere", "--database-url", url)

    assert (result.code, result.err) == (0, "")
    assert result.shown.startswith("None fits among the newest. To look further back:  cortex jobs list --before <id>")
