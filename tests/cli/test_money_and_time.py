"""`cortex tenants`, `cortex budgets` and `cortex retention`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.cli import front_page
from cortex_plane.cli.main import COMMANDS, GROUPS, Command
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]

MINE = {
    "tenants add": Command("tenants:add", "NAME", "Add a tenant."),
    "tenants list": Command("tenants:list_tenants", "", "List tenants, by name."),
    "tenants show": Command(
        "tenants:show", "NAME", "Show one tenant: what runs and waits, what it has cost, what is set for it."
    ),
    "budgets set": Command("budgets:set_budget", "CENTS", "Set what an agent or a tenant may spend."),
    "budgets list": Command("budgets:list_budgets", "", "List budgets, with what is spent of them."),
    "budgets remove": Command("budgets:remove_budget", "", "Remove the budget of an agent or a tenant."),
    "retention add": Command("retention:add", "KEEP", "Add a rule: finished jobs are deleted after a time."),
    "retention list": Command("retention:list_rules", "", "List the rules about how long finished jobs are kept."),
    "retention remove": Command("retention:remove", "ID", "Remove a rule; its jobs are kept as the other rules say."),
    "retention run": Command("retention:run", "", "Delete now what the rules no longer keep."),
}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    for group in ("tenants", "budgets", "retention"):
        monkeypatch.setitem(GROUPS, group, GROUPS.get(group, "Test."))
        monkeypatch.setitem(front_page.HEADINGS, group, front_page.HEADINGS.get(group, "Administration"))
    for path, command in MINE.items():
        monkeypatch.setitem(COMMANDS, path, COMMANDS.get(path, command))


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    """A database in which three jobs have ended."""

    async def fill(plane: Plane) -> None:
        for name in ("greet", "greet", "hopeless"):
            await plane.submit(name)
        await plane.run_worker(["default", "reports"], until_idle=True)

    run_in(database_url, fill)
    return database_url


def test_a_tenant_is_added_listed_and_shown(cortex: Cortex, url: str) -> None:
    added = cortex("tenants", "add", "acme", "--database-url", url)
    assert (added.code, added.err, added.shown) == (0, "", "Added tenant acme, <id>\n")

    listed = cortex("tenants", "list", "--database-url", url)
    assert listed.shown.startswith("NAME  ID  ADDED\nacme  <id>  <time> UTC\ndefault  <id>")

    cortex("budgets", "set", "500", "--tenant", "acme", "--on-exhausted", "pause", "--database-url", url)
    assert (
        cortex("tenants", "show", "acme", "--database-url", url).shown
        == """\
Tenant acme
  id  <id>
  running  0
  waiting  0
  spent  0 cents
  budget  500 cents, then pause
"""
    )
    shown = json.loads(cortex("tenants", "show", "acme", "--json", "--database-url", url).out)
    assert (shown["tenant"]["name"], shown["running"], shown["waiting"], shown["spent_cents"]) == ("acme", 0, {}, 0)


def test_a_tenant_is_added_once_and_must_exist_to_be_shown(cortex: Cortex, url: str) -> None:
    again = cortex("tenants", "add", "default", "--database-url", url)
    unknown = cortex("tenants", "show", "nobody", "--database-url", url)

    assert (again.code, again.out) == (4, "")
    assert again.err == 'Error: Tenant "default" already exists. To show it: cortex tenants show default\n'
    assert (unknown.code, unknown.err) == (3, 'Error: There is no tenant "nobody".\n')


def test_a_budget_is_set_listed_and_removed(cortex: Cortex, url: str) -> None:
    none = cortex("budgets", "list", "--database-url", url)
    assert none.out.startswith("There are no budgets. To set one:  cortex budgets set CENTS --agent NAME")

    made = cortex("budgets", "set", "5000", "--agent", "greet", "--database-url", url)
    assert (made.code, made.out, made.err) == (0, "Agent greet may spend 5,000 cents; 0 are spent.\n", "")
    listed = cortex("budgets", "list", "--database-url", url)
    assert listed.shown == "OF  NAME  SPENT  BUDGET  THEN\nagent  greet  0  5,000  refuse\n"
    assert json.loads(cortex("budgets", "list", "--json", "--database-url", url).out)["budgets"][0]["cents"] == 5000

    removed = cortex("budgets", "remove", "--agent", "greet", "--database-url", url)
    assert removed.out == "Agent greet has no budget any more.\n"
    assert cortex("budgets", "remove", "--agent", "greet", "--database-url", url).code == 3


@pytest.mark.parametrize(
    ("on_exhausted", "said"), [("refuse", "new jobs are refused from now on."), ("pause", "it is paused now.")]
)
def test_a_budget_that_is_spent_already_says_so(cortex: Cortex, url: str, on_exhausted: str, said: str) -> None:
    made = cortex("budgets", "set", "0", "--agent", "greet", "--on-exhausted", on_exhausted, "--database-url", url)

    assert made.out == f"Agent greet may spend 0 cents; 0 are spent.\nIt is spent already: {said}\n"


def test_a_job_that_a_budget_refuses_is_denied(cortex: Cortex, url: str) -> None:
    cortex("budgets", "set", "0", "--agent", "greet", "--database-url", url)

    refused = cortex("jobs", "submit", "greet", "--database-url", url)

    assert (refused.code, refused.out) == (6, "")
    assert 'Agent "greet" has spent 0 of its budget of 0 cents' in refused.err


@pytest.mark.parametrize("words", [["5"], ["5", "--agent", "greet", "--tenant", "default"], ["-5", "--agent", "greet"], ["1.5"]])
def test_a_budget_needs_one_owner_and_whole_cents(cortex: Cortex, url: str, words: list[str]) -> None:
    assert cortex("budgets", "set", *words, "--database-url", url).code == 2


def test_rules_are_added_listed_run_and_removed(cortex: Cortex, url: str) -> None:
    none = cortex("retention", "list", "--database-url", url)
    assert none.out.startswith("Finished jobs are kept for ever. To change that:  cortex retention add 30d")
    cortex("retention", "add", "1d12h", "--database-url", url)
    made = cortex("retention", "add", "0", "--agent", "greet", "--status", "completed", "--json", "--database-url", url)
    rule = json.loads(made.out)
    assert (rule["keep_seconds"], rule["job_type"], rule["status"]) == (0, "greet", "COMPLETED")

    listed = cortex("retention", "list", "--database-url", url)
    assert (
        listed.shown
        == """\
ID  KEEP  RECORD  TENANT  AGENT  STATUS  BY
<id>  1d12h  job  all  all  all  cli:ada
<id>  0s  job  all  greet  COMPLETED  cli:ada
"""
    )
    assert cortex("retention", "run", "--database-url", url).out == "Deleted 2 jobs.\n"
    removed = cortex("retention", "remove", rule["id"][:-2], "--database-url", url)
    assert (removed.code, removed.out) == (0, f"Removed rule {rule['id']}\n")
    assert cortex("retention", "remove", rule["id"], "--database-url", url).code == 3


def test_a_rule_that_makes_no_sense_is_refused(cortex: Cortex, url: str) -> None:
    for words in (["soon"], ["1d", "--status", "running"], ["-1"]):
        assert cortex("retention", "add", *words, "--database-url", url).code == 2
    cortex("retention", "add", "1d", "--database-url", url)

    assert cortex("retention", "add", "2d", "--database-url", url).code == 4


@pytest.mark.parametrize("path", MINE)
def test_every_command_says_what_it_does_and_shows_an_example(cortex: Cortex, path: str) -> None:
    result = cortex(*path.split(), "--help")

    assert (result.code, result.err) == (0, "")
    assert MINE[path].sentence in result.out
    assert f"Try:\n    cortex {path}" in result.out
