"""`cortex webhooks`: add, list, remove, enable, disable, test, dead, redeliver."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, RunId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Failed, after_run
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.worker.model import NewWorker
from tests.cli.conftest import Cortex, Result

RunIn = Callable[..., Any]
URL = "https://hooks.example.com/in"


@pytest.fixture
def hooks(cortex: Cortex, database_url: str, run_in: RunIn) -> Callable[..., Result]:
    """`hooks("add", URL)` on a database that is there."""
    run_in(database_url, lambda plane: plane.jobs.list())
    return lambda *words: cortex("webhooks", *words, "--database-url", database_url)


@pytest.fixture
def endpoint_id(hooks: Callable[..., Result]) -> str:
    found: str = json.loads(hooks("add", URL, "--event", "job.failed", "--json").out)["endpoint"]["id"]
    return found


async def fail_all(plane: Plane) -> None:
    """What a worker would do whose every delivery is refused."""
    store = plane.store
    worker = WorkerId(new_id())
    await store.workers.register(NewWorker(worker, "w", ("cortex",), ("cortex.webhook",), 1, 15.0))
    claimed = await store.queue.claim(worker, ("cortex",), ("cortex.webhook",), [RunId(new_id())])
    refused = Failed({"type": "DeliveryFailed", "message": "The receiver answered 500."}, retryable=False)
    chance = Chance(0.5, JobId(new_id()))
    await store.queue.finish([after_run(one, refused, RetryPolicy(), chance) for one in claimed], "test")


def test_a_new_webhook_shows_its_secret_once(hooks: Callable[..., Result], database_url: str) -> None:
    result = hooks("add", URL)

    assert (result.code, result.err) == (0, "")
    first, second, third = result.shown.splitlines()
    assert first == "Added <id>"
    assert second.startswith("Its secret, shown only now: whsec_")
    assert third == f"To try it:  cortex webhooks test <id> --database-url {database_url}"
    secret = second.rpartition(" ")[2]
    assert secret not in hooks("list").out
    assert secret not in hooks("list", "--json").out


def test_the_list_shows_who_is_told_of_what(
    hooks: Callable[..., Result], endpoint_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    hooks("disable", endpoint_id[:23], "--reason", "too loud")
    hooks("add", URL)

    heading, first, second = hooks("list").shown.splitlines()
    assert heading.split() == ["ID", "TENANT", "EVENTS", "STATE", "URL"]
    assert first.split() == ["<id>", "default", "job.failed", "disabled:", "too", "loud", URL]
    assert second.split() == ["<id>", "default", "*", "enabled", URL]


def test_an_empty_list_says_how_to_begin(hooks: Callable[..., Result]) -> None:
    assert hooks("list").out.startswith("There are no webhooks yet. To add one:  cortex webhooks add URL")


def test_json_holds_everything_but_the_secret(hooks: Callable[..., Result], endpoint_id: str) -> None:
    [endpoint] = json.loads(hooks("list", "--json").out)["endpoints"]

    assert (endpoint["id"], endpoint["events"], endpoint["created_by"]) == (endpoint_id, ["job.failed"], "cli:ada")
    assert "secret" not in endpoint


def test_a_webhook_is_switched_and_removed(hooks: Callable[..., Result], endpoint_id: str) -> None:
    assert hooks("disable", endpoint_id).out == f"Disabled {endpoint_id}\n"
    assert hooks("enable", endpoint_id).out == f"Enabled {endpoint_id}\n"
    assert hooks("remove", endpoint_id).out == f"Removed {endpoint_id}\n"

    gone = hooks("remove", endpoint_id)
    assert (gone.code, gone.out) == (3, "")
    assert "cortex webhooks list" in gone.err


def test_a_bad_address_is_refused_by_name(hooks: Callable[..., Result]) -> None:
    result = hooks("add", "http://localhost/")

    assert (result.code, result.out) == (2, "")
    assert "a private address" in result.err


def test_a_test_message_that_fails_is_dead_until_it_is_sent_again(
    hooks: Callable[..., Result], endpoint_id: str, run_in: RunIn, database_url: str
) -> None:
    assert hooks("dead-letters").out == "Everything was delivered, or is still being tried.\n"
    submitted = hooks("test", endpoint_id)
    assert submitted.shown.startswith("Submitted delivery <id>\nTo follow it:  cortex jobs watch <id>")
    run_in(database_url, fail_all)

    heading, row, *_ = hooks("dead-letters").shown.splitlines()
    assert heading.split() == ["ID", "EVENT", "TRIES", "FAILED", "WHERE", "AND", "WHY"]
    assert row.split()[:3] == ["<id>", "webhook.test", "1"]
    [letter] = json.loads(hooks("dead-letters", "--json").out)["dead_letters"]
    assert (letter["endpoint_id"], letter["error_message"]) == (endpoint_id, "The receiver answered 500.")

    again = hooks("redeliver", letter["job_id"], "--json")
    assert json.loads(again.out)["id"] != letter["job_id"]
    assert json.loads(hooks("dead-letters", "--json").out)["dead_letters"] == []
