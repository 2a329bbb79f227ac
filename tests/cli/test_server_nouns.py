"""Every other command that works on a database works through a server too, and says the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, Plane
from tests.cli.twins import Twins, twins

__all__ = ["twins"]

MakeTwins = Callable[..., Twins]


async def nothing(plane: Plane) -> dict[str, str]:
    await plane.open()
    return {}


async def asked(plane: Plane) -> dict[str, str]:
    @plane.agent("release-bot")
    async def release(ctx: Context, gate: dict[str, Any]) -> str:
        return (await ctx.approval("Deploy 1.4.0", details={"replicas": 3}, **gate)).outcome

    await plane.access.give_role("ada", "approver")
    await plane.people.add("bob", display_name="Bob")
    gates: dict[str, dict[str, Any]] = {
        "one": {},
        "two": {"editable": True},
        "both": {"quorum": 2},
        "bobs": {"approvers": ["bob"]},
        "late": {},
        "gone": {},
    }
    jobs = {name: await plane.submit("release-bot", {"gate": gate}) for name, gate in gates.items()}
    await plane.run_worker(until_idle=True)
    found = {}
    for name, job in jobs.items():
        [request] = await plane.approvals.list(job=job.id)
        found[name] = str(request.id)
        found[f"{name}_job"] = str(job.id)
    await plane.approvals.deny(found["late"], by="ada")
    await plane.jobs.cancel(found["gone_job"])
    return found


STEERING = [
    "queues list",
    "jobs submit greet --queue mail --json",
    "queues list --json",
    "queues list",
    "queues pause mail --reason 'the provider is down' --json",
    "queues pause mail",
    "queues list --json",
    "queues pause --agent greet",
    "queues pause --agent nobody",
    "queues pause --tenant default --json",
    "queues pause --tenant nobody",
    "gate status --json",
    "queues resume mail --json",
    "queues resume mail",
    "queues resume --agent greet",
    "queues resume --tenant default",
    "queues limit mail --running 5 --json",
    "queues limit --agent greet --running 1",
    "queues limit --tenant default --running 2 --reason because",
    "queues limit mail",
    "~ queues limit mail --running 0",
    "queues fair-share mail --json",
    "queues fair-share mail --off",
    "queues reservations --json",
    "queues release 00000000-0000-7000-8000-000000000000",
    "gate close --reason fire --json",
    "gate close",
    "gate status --json",
    "gate open",
    "gate open --json",
]

APPROVALS = [
    "approvals list --json",
    "approvals list --limit 2 --json",
    "approvals list --limit 2 --before {bobs} --json",
    "approvals list --all --json",
    "approvals list --mine --json",
    "approvals list --job {one_job} --json",
    "approvals show {one} --json",
    "approvals show {bobs}",
    "approvals show 00000000-0000-7000-8000-000000000000",
    "approvals remind {one} --json",
    "approvals approve {one} --reason fine",
    "approvals approve {one}",
    "approvals approve {two} --details '{{\"replicas\": 4}}'",
    "approvals approve {both} {bobs} {late} {gone}",
    "approvals deny {both}",
    "approvals approve 00000000-0000-7000-8000-000000000000",
    "approvals show {one} --json",
    "approvals show {two} --json",
    "approvals remind {one}",
]

TEMPLATES = [
    "templates list",
    "templates save nightly greet name=Ada --queue mail --max-retries 1 --run-timeout 5m --deadline 2h --tag a --json",
    "templates save nightly greet name=Bob",
    "templates save nightly nobody",
    "templates list --json",
    "templates show nightly --json",
    "templates show nighty",
    "templates submit nightly --json",
    "templates submit nightly name=Grace --queue other --priority 5 --delay 1h --max-retries 0 --json",
    "jobs list --json",
    "templates remove nightly --json",
    "templates remove nightly",
]

SCHEDULES = [
    "schedules list",
    "schedules add nightly agent:greet '0 3 * * *' name=Ada --json",
    "schedules add standup agent:greet '0 9 * * mon-fri' --timezone Europe/Berlin --missed all:5 --overlap allow --jitter 30s",
    "schedules add bounded agent:greet @daily --start 2026-01-05T09:00 --end 2099-01-05T09:00 --pause-after 3 --json",
    "schedules add nightly agent:greet '0 3 * * *'",
    "schedules add other agent:greet 'every day'",
    "schedules add other agent:nobody '0 3 * * *'",
    "schedules list --json",
    "schedules show nightly --json",
    "schedules show standup",
    "schedules show nighty",
    "schedules next standup --count 3 --json",
    "schedules pause nightly --reason 'the warehouse moves' --json",
    "schedules pause nightly",
    "schedules resume nightly",
    "schedules resume nightly --json",
    "schedules trigger nightly --json",
    "schedules backfill nightly --start 2026-01-05 --end 2026-01-07 --json",
    "schedules show nightly --slots 2 --json",
    "schedules remove nightly --json",
    "schedules remove nightly",
    "grants list --json",
    "grants list",
    "grants add agent:run:greet --expires 30d --max-uses 5",
    "grants add nonsense",
    "billing add research --virtual-key vk --json",
    "billing list --json",
]

CARE = [
    "tenants add acme --reason 'a customer' --json",
    "tenants add acme",
    "tenants list --json",
    "tenants show acme --json",
    "tenants show acme",
    "tenants show nobody",
    "users list --json",
    "users show ada --json",
    "users add grace --role operator --tenant acme --email grace@example.com --shown-as Grace --no-password --json",
    "~ users add grace --no-password",
    "users show grace --json",
    "users show nobody",
    "users add-role grace viewer",
    "users remove-role grace viewer",
    "users add-role grace nothing",
    "users disable grace --reason 'on leave'",
    "users disable grace",
    "users enable grace",
    "users link grace email grace@example.com --json",
    "users link nobody email grace@example.com",
    "users show grace",
    "user-groups add release-managers --json",
    "user-groups add release-managers",
    "user-groups join grace release-managers",
    "user-groups join grace release-managers",
    "user-groups join grace nobody",
    "user-groups list --json",
    "user-groups leave grace release-managers",
    "user-groups leave grace release-managers",
    "budgets list",
    "budgets set 5000 --agent greet --json",
    "budgets set 5000 --agent nobody",
    "budgets set 100 --tenant acme --on-exhausted pause",
    "budgets list --json",
    "budgets remove --agent greet --reason because --json",
    "budgets remove --agent greet",
    "retention list",
    "retention add 30d --agent greet --status completed --tenant acme --reason because --json",
    "retention add 30d --agent greet --status completed --tenant acme",
    "retention add 30d --agent nobody",
    "retention list --json",
    "retention remove 00000000",
    "webhooks list",
    "webhooks add https://example.com/hooks --event job.failed --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --json",
    "webhooks add http://127.0.0.1/hooks",
    "webhooks add nonsense",
    "webhooks list --json",
    "webhooks dead-letters --json",
    "webhooks redeliver 00000000-0000-7000-8000-000000000000",
    "audit list --action TENANT_ADDED --json",
    "audit list --limit 0",
    "audit verify --json",
    "audit verify --seal 9:nonsense",
]


@pytest.mark.parametrize(
    ("fill", "lines"),
    [(nothing, STEERING), (asked, APPROVALS), (nothing, TEMPLATES), (nothing, SCHEDULES), (nothing, CARE)],
    ids=["steering", "approvals", "templates", "schedules", "care"],
)
def test_the_answer_is_the_same_through_a_server(twins: MakeTwins, fill: Any, lines: list[str]) -> None:
    both = twins(fill)

    for line in lines:
        both.same(line)


MEMBERS = {"members": [{"agent": "greet", "payload": {"name": name}, "delay": "1h"} for name in ("Ada", "Grace")], "name": "both"}


def test_groups_are_the_same_through_a_server(twins: MakeTwins, folder: Path) -> None:
    (folder / "group.json").write_text(json.dumps(MEMBERS))
    (folder / "wrong.json").write_text(json.dumps({"members": [{"agent": "greet"}, {"agent": "nobody"}]}))
    both = twins(nothing)

    both.same("groups list")
    both.same("groups submit group.json --json", keep={"group": "group.id"})
    both.same("groups submit group.json")
    both.same("groups submit wrong.json")
    both.same("groups list --json")
    both.same("groups list --limit 1 --json")
    both.same("groups list --before {group} --json")
    both.same("groups show {group} --json")
    both.same("groups show {group}")
    both.same("groups show 00000000")
    both.same("groups cancel {group} --reason 'wrong data' --json")
    both.same("groups cancel {group}")


def test_grants_are_the_same_through_a_server(twins: MakeTwins) -> None:
    both = twins(nothing)

    both.same("grants add agent:run:* --billing-account research")
    both.same("billing add research --virtual-key vk")
    both.same("grants add agent:run:* --billing-account research --json", keep={"grant": "id"})
    both.same("schedules add nightly agent:greet '0 3 * * *' --grant {grant} --json")
    both.same("grants show {grant} --json")
    both.same("grants show 00000000")
    both.same("grants revoke {grant} --reason 'the contract has ended' --json")
    both.same("grants revoke {grant}")
    both.same("schedules show nightly --json")
    both.same("billing list --json")


def test_webhooks_are_the_same_through_a_server(twins: MakeTwins) -> None:
    both = twins(nothing)

    both.same(
        "webhooks add https://example.com/hooks --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --json",
        keep={"hook": "endpoint.id"},
    )
    both.same("webhooks disable {hook} --reason 'moving house' --json")
    both.same("webhooks enable {hook}")
    both.same("webhooks test {hook}")
    both.same("webhooks remove {hook} --json")
    both.same("webhooks remove {hook}")
    both.same("webhooks enable 0")


def test_what_is_named_by_its_id_is_found_and_removed_through_a_server(twins: MakeTwins) -> None:
    both = twins(nothing)

    both.same("retention add 30d --json", keep={"rule": "id"})
    both.same("retention remove {rule} --reason because --json")
    both.same("retention remove {rule}")
    both.same("users link ada email ada@example.com --json", keep={"channel": "id"})
    both.same("users unlink ada {channel}")
    both.same("users unlink ada {channel}")
    both.same("users add ci --owner nobody")
    both.same("users add ci --owner ada --role submitter --json")
    both.same("users owner ci ada")
    both.same("users owner ada ada")
    both.same("~ keys add ci --role submitter --tenant default --user ci")
    both.same("sessions start ada --channel slack --json", keep={"session": "id"})
    both.same("sessions list --user ada --json")
    both.same("sessions show {session}")
    both.same("sessions end {session}")
    both.same("sessions show 0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60")
    both.same("users password ada", stdin="correct horse battery staple\n")
    both.same("~ users password ada", stdin="short\n")
    both.same("users add grace --role viewer --json", stdin="correct horse battery staple\n")


def test_keys_of_one_tenant_are_made_listed_and_revoked_through_a_server(twins: MakeTwins) -> None:
    both = twins(nothing)

    add = "keys add ci --role viewer --tenant default --json"
    made = [json.loads(both.run(world, add, {}, "").out) for world in both.worlds]
    listed = both.same("keys list --tenant default --json")
    both.same("keys revoke ci --reason 'no longer used'")
    both.same("keys revoke nobody")

    assert all(one["secret"].startswith("ctx_") for one in made)
    assert [key["name"] for key in json.loads(listed.out)["keys"]] == ["ci"]


REFUSED = {
    "keys add me --role admin": "Through a server, a key is made for one tenant: say --tenant NAME",
    "approvals list --as bob": 'Your API key belongs to "ada". Through a server, --as cannot name another user.',
    "approvals list --mine --all": "Through a server, --mine cannot be combined with",
    "retention run": "This works on the database itself, not through a server.",
}


def test_what_a_server_does_not_do_is_refused_by_name(twins: MakeTwins) -> None:
    both = twins(nothing)

    for line, told in REFUSED.items():
        result = both.run(both.behind, line, {}, "")
        assert (result.code, told in result.err) == (2, True), (line, result)
