"""`cortex approvals` and `cortex users`: what waits, who decides, and what is said when they may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, Plane
from tests.cli.conftest import Cortex


class Waiting:
    """A database with jobs that wait for people."""

    def __init__(self, folder: Path) -> None:
        self.plane = Plane(f"sqlite:///{folder}/cortex.db")
        self.summary = "Deploy 1.4.0"

        @self.plane.agent("release-bot")
        async def release(ctx: Context, gate: dict[str, Any]) -> str:
            return (await ctx.approval(self.summary, details={"replicas": 3}, **gate)).outcome

    def asked(self, **gate: Any) -> str:
        """The id of a new request."""
        sync = self.plane.sync
        job = sync.submit("release-bot", {"gate": gate})
        sync.run(self.plane.run_worker(until_idle=True))
        [request] = sync.run(self.plane.approvals.list(job=job.id))
        return request.id


@pytest.fixture
def waiting(folder: Path) -> Iterator[Waiting]:
    made = Waiting(folder)
    yield made
    made.plane.sync.close()


@pytest.fixture
def people(cortex: Cortex, waiting: Waiting) -> None:
    waiting.plane.sync.jobs.list()
    assert cortex("users", "add", "ada", "--shown-as", "Ada", "--role", "approver", "--no-password").code == 0
    assert cortex("users", "add", "bob", "--no-password").code == 0


@pytest.mark.usefixtures("people")
def test_what_waits_is_listed_shown_and_approved(cortex: Cortex, waiting: Waiting) -> None:
    request_id = waiting.asked()

    listed = cortex("approvals", "list")
    mine, bobs = (cortex("approvals", "list", "--as", name) for name in ("ada", "bob"))
    shown = cortex("approvals", "show", request_id)
    approved = cortex("approvals", "approve", request_id, "--as", "ada", "--reason", "fine")
    document = json.loads(cortex("approvals", "show", request_id, "--json").out)
    after, votes = document["approval"], document["votes"]
    told = document["notifications"]

    assert request_id in listed.out
    assert "Deploy 1.4.0" in listed.out
    assert listed.out == mine.out
    assert bobs.out == "No approval is open.\n"
    assert '{"replicas": 3}' in shown.out
    assert f"cortex approvals approve {request_id}" in shown.out
    assert (approved.code, approved.out) == (0, f"{request_id}  You approved it.\n")
    assert (after["state"], after["decided_by"], after["reason"]) == ("approved", "Ada", "fine")
    assert votes[0]["door"] == "cli"
    assert told == []


@pytest.mark.usefixtures("people")
def test_refusals_say_why_and_have_the_exit_codes_of_all_refusals(cortex: Cortex, waiting: Waiting) -> None:
    request_id = waiting.asked(approvers="ada")
    unknown = "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60"

    not_asked = cortex("approvals", "approve", request_id, "--as", "bob")
    denied = cortex("approvals", "deny", request_id, "--as", "ada")
    late = cortex("approvals", "approve", request_id, "--as", "ada")
    nobody = cortex("approvals", "approve", unknown, "--as", "ada")
    stranger = cortex("approvals", "approve", request_id, "--as", "eve")

    assert [one.code for one in (not_asked, denied, late, nobody, stranger)] == [6, 0, 4, 3, 3]
    assert not_asked.err == f"{request_id}  You are not an approver of this request.\n"
    assert f"{request_id}  It was already denied by Ada, on " in late.err
    assert "There is no such approval." in nobody.err
    assert 'There is no user "eve".' in stranger.err


@pytest.mark.usefixtures("people")
def test_without_a_name_the_login_is_who_decides_and_one_that_is_unknown_is_told_so(
    cortex: Cortex, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = waiting.asked()
    monkeypatch.setattr("getpass.getuser", lambda: "eve")
    unknown = cortex("approvals", "approve", request_id)
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    known = cortex("approvals", "approve", request_id)

    assert (unknown.code, known.code) == (2, 0)
    assert 'There is no user "eve". Pass --as NAME' in unknown.err


@pytest.mark.usefixtures("people")
def test_several_are_decided_at_once_and_one_that_cannot_be_is_told(cortex: Cortex, waiting: Waiting) -> None:
    first, second, third = (waiting.asked() for _ in range(3))
    cortex("approvals", "deny", second, "--as", "ada")

    result = cortex("approvals", "approve", first, second, third, "--as", "ada", "--json")

    decisions = {one["id"]: one["done"] for one in json.loads(result.out)["decisions"]}
    assert (result.code, decisions) == (4, {first: True, second: False, third: True})


@pytest.mark.usefixtures("people")
def test_details_are_changed_where_the_gate_allows_it(cortex: Cortex, waiting: Waiting) -> None:
    request_id, fixed = waiting.asked(editable=True), waiting.asked()

    no_json = cortex("approvals", "approve", request_id, "--as", "ada", "--details", "{")
    refused = cortex("approvals", "approve", fixed, "--as", "ada", "--details", '{"replicas": 1}')
    done = cortex("approvals", "approve", request_id, "--as", "ada", "--details", '{"replicas": 1}')

    assert (no_json.code, refused.code, done.code) == (2, 2, 0)
    assert "cannot be changed" in refused.err
    assert "Edited details" in cortex("approvals", "show", request_id).out


@pytest.mark.usefixtures("people")
def test_reminding_asks_anew_while_it_is_open(cortex: Cortex, waiting: Waiting) -> None:
    request_id = waiting.asked()

    reminded = cortex("approvals", "remind", request_id)
    cortex("approvals", "approve", request_id, "--as", "ada")
    closed = cortex("approvals", "remind", request_id)

    assert (reminded.code, closed.code) == (0, 4)
    assert json.loads(cortex("approvals", "show", request_id, "--json").out)["approval"]["reminders"] == 1


@pytest.mark.usefixtures("people")
def test_a_channel_of_the_app_is_linked_with_the_app(cortex: Cortex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "app.py").write_text("from cortex_plane import Plane\n\nplane = Plane(channels={'teams': object()})\n")

    unknown = cortex("users", "link", "ada", "teams", "19:abc")
    linked = cortex("users", "link", "ada", "teams", "19:abc", "--app", "app.py")
    monkeypatch.setenv("CORTEX_APP", "app.py")
    by_setting = cortex("users", "link", "bob", "teams", "19:def")

    assert (unknown.code, linked.code, by_setting.code) == (2, 0, 0), (unknown.err, linked.err, by_setting.err)
    assert "Plane(channels=" in unknown.err
    assert "19:abc" in cortex("users", "show", "ada").out


@pytest.mark.usefixtures("people")
def test_people_are_listed_linked_grouped_and_disabled(cortex: Cortex) -> None:
    linked = json.loads(cortex("users", "link", "ada", "telegram", "42", "--json").out)
    taken = cortex("users", "link", "bob", "telegram", "42")
    cortex("user-groups", "add", "managers")
    cortex("user-groups", "join", "ada", "managers")
    again = cortex("user-groups", "join", "ada", "managers")
    groups = cortex("user-groups", "list")
    cortex("users", "disable", "bob", "--reason", "on leave")
    listed = json.loads(cortex("users", "list", "--json").out)["users"]
    shown = cortex("users", "show", "ada")
    unlinked = cortex("users", "unlink", "ada", linked["id"])
    left = cortex("user-groups", "leave", "ada", "managers")

    assert taken.code == 4
    assert again.out == "ada was in managers already.\n"
    assert groups.out.split() == ["GROUP", "WHO", "managers", "ada"]
    assert [(one["name"], one["disabled_at"] is None) for one in listed] == [("ada", True), ("bob", False)]
    for text in ("Ada", "approver in all tenants", "telegram", "42"):
        assert text in shown.out
    assert (unlinked.code, left.code, cortex("users", "enable", "bob").out) == (0, 0, "bob is enabled.\n")
    assert "telegram" not in cortex("users", "show", "ada").out


@pytest.mark.usefixtures("people")
def test_a_request_that_is_asked_again_says_why(cortex: Cortex, waiting: Waiting) -> None:
    first = waiting.asked()
    assert cortex("approvals", "approve", first, "--as", "ada").code == 0
    waiting.summary = "Ship 1.4.0"
    waiting.plane.sync.run(waiting.plane.run_worker(until_idle=True))
    [again] = waiting.plane.sync.run(waiting.plane.approvals.list())

    shown = cortex("approvals", "show", again.id)
    document = json.loads(cortex("approvals", "show", again.id, "--json").out)["approval"]

    assert "Asked again: the agent's code has changed the wording of this request" in " ".join(shown.out.split())
    assert first in shown.out
    assert (document["supersedes"], document["superseded"]["decided_by"]) == (first, "Ada")
    assert document["why_again"].startswith("Asked again")
