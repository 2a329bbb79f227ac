"""`cortex schedules`, `cortex grants` and `cortex billing`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    """A database that knows the agents."""

    async def fill(plane: Plane) -> None:
        await plane.submit("greet")

    run_in(database_url, fill)
    return database_url


def test_a_schedule_is_added_listed_shown_and_removed(cortex: Cortex, url: str) -> None:
    added = cortex("schedules", "add", "nightly", "agent:greet", "0 3 * * *", "name=Ada", "--database-url", url)
    assert (added.code, added.err) == (0, "")
    assert added.out.startswith("Added nightly: Every day at 03:00, UTC\nTo see when it runs:  cortex schedules next nightly")

    listed = cortex("schedules", "list", "--database-url", url)
    assert "nightly  agent:greet  0 3 * * *" in listed.out
    assert "Every day at 03:00, UTC" in listed.out

    shown = cortex("schedules", "show", "nightly", "--json", "--database-url", url)
    document = json.loads(shown.out)
    assert (document["name"], document["terms"]["input"], document["slots"]) == ("nightly", {"name": "Ada"}, [])
    assert (document["created_by"], document["description"]) == ("cli:ada", "Every day at 03:00, UTC")
    assert document["daylight_saving_rule"] == "fixed"
    assert "fixed: Runs once on every day" in cortex("schedules", "show", "nightly", "--database-url", url).out

    removed = cortex("schedules", "remove", "nightly", "--database-url", url)
    assert removed.out.startswith("Removed nightly\nIts grant is still good.")
    assert cortex("schedules", "show", "nightly", "--database-url", url).code == 3


def test_the_coming_slots_are_shown_in_both_zones_with_the_rule_for_the_clocks(cortex: Cortex, url: str) -> None:
    cortex("schedules", "add", "a", "agent:greet", "0 9 * * mon-fri", "--timezone", "Europe/Berlin", "--database-url", url)

    shown = cortex("schedules", "next", "a", "--count", "2", "--database-url", url)

    lines = shown.out.splitlines()
    assert lines[0] == "Every weekday at 09:00, Europe/Berlin"
    assert lines[1].split() == ["EUROPE/BERLIN", "UTC"]
    assert all("09:00 CE" in line and line.endswith("UTC") for line in lines[2:4])
    assert lines[4].startswith("Daylight saving (fixed): Runs once on every day")


def test_a_schedule_is_paused_resumed_and_triggered(cortex: Cortex, url: str) -> None:
    cortex("schedules", "add", "a", "agent:greet", "0 9 * * *", "--database-url", url)

    assert cortex("schedules", "pause", "a", "--reason", "a move", "--database-url", url).out.startswith("Paused a\n")
    assert cortex("schedules", "pause", "a", "--database-url", url).out.startswith("a was paused already\n")
    assert "paused by cli:ada: a move" in cortex("schedules", "show", "a", "--database-url", url).out
    assert cortex("schedules", "trigger", "a", "--database-url", url).out.startswith("Triggered a\n")
    assert cortex("schedules", "resume", "a", "--database-url", url).out.startswith("Resumed a; next ")
    assert cortex("schedules", "resume", "a", "--database-url", url).out == "a was not paused\n"
    backfilled = cortex("schedules", "backfill", "a", "--start", "2026-01-01", "--end", "2026-01-03", "--database-url", url)
    assert backfilled.out.startswith("2 slots of a will run\n")
    assert "pending" in cortex("schedules", "show", "a", "--database-url", url).out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["61 * * * *"], 2, "The minute must be from 0 to 59, not 61. A rule such as"),
        (["0 9 * * *", "--missed", "al:3"], 2, "--missed 'al:3' is not a rule"),
        (["0 9 * * *", "--overlap", "alow"], 2, 'Did you mean "allow"?'),
        (["0 9 * * *", "--grant", "00000000-0000-7000-8000-000000000001"], 3, "There is no grant"),
        (["0 9 * * *", "--billing-account", "nobody"], 3, 'There is no billing account "nobody"'),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said(cortex: Cortex, url: str, words: list[str], code: int, message: str) -> None:
    result = cortex("schedules", "add", "a", "agent:greet", *words, "--database-url", url)

    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_an_unknown_agent_is_answered_with_the_one_that_was_meant(cortex: Cortex, url: str) -> None:
    result = cortex("schedules", "add", "a", "agent:gret", "0 9 * * *", "--database-url", url)

    assert result.code == 3
    assert 'There is no agent "gret". Did you mean "greet"?' in result.err


def test_a_grant_is_added_shown_and_revoked(cortex: Cortex, url: str) -> None:
    added = cortex("grants", "add", "agent:run:greet", "--expires", "30d", "--max-uses", "5", "--json", "--database-url", url)
    grant = json.loads(added.out)["id"]
    cortex("schedules", "add", "a", "agent:greet", "0 9 * * *", "--grant", grant, "--database-url", url)

    shown = cortex("grants", "show", grant[:30], "--database-url", url)
    assert "good for 29 d" in shown.out
    assert "0 of 5" in shown.out
    assert "agent:greet" in shown.out
    revoked = cortex("grants", "revoke", grant, "--reason", "over", "--database-url", url)
    assert revoked.shown == "Revoked <id>: 1 schedule paused, 1 job cancelled\n"
    assert "revoked" in cortex("grants", "list", "--database-url", url).out
    again = cortex("grants", "revoke", grant, "--database-url", url)
    assert (again.code, "already revoked by cli:ada" in again.err) == (4, True)
    wrong = cortex("grants", "add", "run everything", "--database-url", url)
    assert (wrong.code, "is not a scope. Write" in wrong.err) == (2, True)


def test_a_grant_may_be_somebodys(cortex: Cortex, url: str) -> None:
    cortex("users", "add", "bob", "--no-password", "--database-url", url)

    added = cortex("grants", "add", "agent:run:greet", "--user", "bob", "--json", "--database-url", url)
    nobody = cortex("grants", "add", "agent:run:greet", "--user", "eve", "--database-url", url)

    grant = json.loads(added.out)
    assert grant["user_account_id"] in cortex("users", "show", "bob", "--json", "--database-url", url).out
    assert grant["user_account_id"] in cortex("grants", "show", grant["id"], "--database-url", url).out
    assert (nobody.code, 'There is no user "eve"' in nobody.err) == (3, True)
    assert len(json.loads(cortex("grants", "list", "--json", "--database-url", url).out)["grants"]) == 1


def test_accounts_are_listed_with_what_was_used(cortex: Cortex, url: str) -> None:
    assert cortex("billing", "list", "--database-url", url).out.startswith("There are no billing accounts yet")

    added = cortex("billing", "add", "research", "--virtual-key", "vk_1", "--database-url", url)

    assert added.out.startswith("Account research, charged to vk_1\n")
    [account] = json.loads(cortex("billing", "list", "--json", "--database-url", url).out)["accounts"]
    assert (account["name"], account["default_virtual_key_id"], account["usage"]) == ("research", "vk_1", {})
    assert "research" in cortex("billing", "list", "--database-url", url).out


def test_empty_lists_say_what_to_do(cortex: Cortex, url: str) -> None:
    assert "To add one:  cortex schedules add" in cortex("schedules", "list", "--database-url", url).out
    assert "To add one:  cortex grants add" in cortex("grants", "list", "--database-url", url).out
