"""Schedules, grants and billing over HTTP: what is set there is what the plane then does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient

from cortex_plane import Context
from tests.contract.schedule_scene import settle
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

HOURLY = {"name": "hourly", "target": "agent:echo", "cron": "0 * * * *", "input": {"word": "on the hour"}}


@pytest.fixture
async def operator(api: Api) -> AsyncClient:
    return await api.client("operator")


async def add(client: AsyncClient, **changed: Any) -> Any:
    answer = await client.post("/schedules", json={**HOURLY, **changed})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_schedule_is_added_with_its_grant_and_runs(api: Api, operator: AsyncClient) -> None:
    added = await operator.post("/schedules", json={**HOURLY, "grant_max_uses": 5})
    schedule = added.json()
    await api.plane.clock.advance(hours=1)
    await settle(api.plane)

    grant = (await operator.get(f"/grants/{schedule['grant_id']}")).json()
    [slot] = (await operator.get(f"/schedules/{schedule['id']}/runs")).json()["items"]

    assert added.headers["location"] == f"/api/v1/schedules/{schedule['id']}"
    assert (grant["scopes"], grant["max_uses"], grant["uses"]) == (["agent:run:echo"], 5, 1)
    assert (slot["status"], slot["scheduled_for"], slot["origin"]) == ("success", "2026-01-05T10:00:00Z", "cron")
    run = (await operator.get(f"/graph-runs/{slot['run_id']}")).json()
    assert (run["progress"], run["trace_id"]) == ("success", slot["trace_id"])
    assert schedule["created_by"].startswith("key:")


@pytest.mark.parametrize(
    ("cron", "rule", "begins"), [("0 2 * * *", "fixed", "Runs once"), ("*/5 * * * *", "interval", "Follows")]
)
async def test_a_schedule_says_its_rule_in_words_and_what_becomes_of_it_when_the_clocks_change(
    operator: AsyncClient, cron: str, rule: str, begins: str
) -> None:
    added = (await operator.post("/schedules", json={**HOURLY, "cron": cron, "timezone": "Europe/Berlin"})).json()
    seen = (await operator.get(f"/schedules/{added['id']}")).json()
    [listed] = (await operator.get("/schedules")).json()["items"]

    assert (added["daylight_saving_rule"], seen["daylight_saving_rule"], listed["daylight_saving_rule"]) == (rule,) * 3
    assert seen["daylight_saving"].startswith(begins)
    assert seen["description"].endswith(", Europe/Berlin")


async def test_adding_is_all_or_nothing_and_once(api: Api, operator: AsyncClient) -> None:
    key = {"Idempotency-Key": "once"}
    first = await operator.post("/schedules", json=HOURLY, headers=key)
    again = await operator.post("/schedules", json=HOURLY, headers=key)
    taken = await operator.post("/schedules", json=HOURLY)

    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    assert (taken.status_code, taken.json()["type"]) == (409, "/problems/schedule-exists")
    assert len((await operator.get("/grants")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("changed", "field", "status"),
    [
        ({"cron": "99 * * * *"}, "cron", 422),
        ({"cron": "0 0 30 2 *"}, "cron", 422),
        ({"timezone": "Mars/Olympus"}, "timezone", 422),
        ({"target": "agent:nobody"}, None, 404),
        ({"target": "*"}, "target", 422),
        ({"overlap": "sometimes"}, "overlap", 422),
        ({"most_missed": 0}, "most_missed", 422),
        ({"jitter_seconds": "5"}, "jitter_seconds", 422),
        ({"starts_at": "2026-01-01"}, "starts_at", 422),
        ({"surprise": 1}, "surprise", 422),
        ({"grant": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60"}, None, 404),
        ({"billing_account": "nobody's"}, None, 404),
        ({"grant_expires_at": "2020-01-01T00:00:00Z"}, "expires_at", 422),
    ],
    ids=str,
)
async def test_wrong_input_names_its_field_and_changes_nothing(
    operator: AsyncClient, changed: dict[str, Any], field: str | None, status: int
) -> None:
    refused = await operator.post("/schedules", json={**HOURLY, **changed})

    assert refused.status_code == status, refused.text
    assert [one["field"] for one in refused.json().get("errors", [])] == ([field] if field else [])
    assert (await operator.get("/schedules")).json()["items"] == []
    assert (await operator.get("/grants")).json()["items"] == []


async def test_schedules_and_grants_are_listed_page_by_page(operator: AsyncClient) -> None:
    names = ["zeta", "Äther", "alpha", "beta", "gamma"]
    for name in names:
        await add(operator, name=name)

    for noun, word in (("schedules", "name"), ("grants", "id")):
        whole = [one[word] for one in (await operator.get(f"/{noun}")).json()["items"]]
        paged: list[str] = []
        cursor = None
        while cursor or not paged:
            page = (await operator.get(f"/{noun}", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
            paged += [one[word] for one in page["items"]]
            cursor = page["next"]
        assert (paged, len(set(paged))) == (whole, 5)
    assert (await operator.get("/schedules?cursor=x")).json()["type"] == "/problems/bad-cursor"


async def test_a_schedule_is_changed_if_nobody_has_changed_it_since(api: Api, operator: AsyncClient) -> None:
    schedule = await add(operator, pause_after_failures=3)
    address = f"/schedules/{schedule['id']}"
    seen = (await operator.get(address)).headers["etag"]
    await api.plane.clock.advance(hours=1)
    await settle(api.plane)
    assert (await operator.get(address)).headers["etag"] == seen, "slots that go by are no change of anybody's"

    changed = await operator.patch(address, json={"cron": "30 * * * *", "pause_after_failures": None}, headers={"If-Match": seen})
    late = await operator.patch(address, json={"cron": "15 * * * *"}, headers={"If-Match": seen})
    anyway = await operator.patch(address, json={"input": {"word": "x"}})

    assert (changed.status_code, changed.json()["next_run_at"]) == (200, "2026-01-05T10:30:00Z")
    assert changed.json()["terms"]["pause_after_failures"] is None
    assert (late.status_code, late.json()["type"]) == (412, "/problems/revision-changed")
    assert late.headers["etag"] == changed.headers["etag"] != seen
    assert (anyway.json()["terms"]["cron"], anyway.json()["terms"]["input"]) == ("30 * * * *", {"word": "x"})
    assert (await operator.patch(address, json={"target": "agent:fail"})).json()["type"] == "/problems/grant-refused"


async def test_changes_at_the_same_time_are_all_made(operator: AsyncClient) -> None:
    address = f"/schedules/{(await add(operator))['id']}"

    await asyncio.gather(
        operator.patch(address, json={"cron": "30 * * * *"}),
        operator.patch(address, json={"timezone": "Europe/Berlin"}),
        operator.patch(address, json={"overlap": "allow"}),
    )

    terms = (await operator.get(address)).json()["terms"]
    assert (terms["cron"], terms["timezone"], terms["overlap"]) == ("30 * * * *", "Europe/Berlin", "allow")


async def test_a_schedule_is_paused_resumed_triggered_and_removed(api: Api, operator: AsyncClient) -> None:
    address = f"/schedules/{(await add(operator))['id']}"

    paused = (await operator.post(f"{address}/pause", json={"reason": "holidays"})).json()
    coming = (await operator.get(f"{address}/next?count=2")).json()
    resumed = (await operator.post(f"{address}/resume", json={})).json()
    slot = await operator.post(f"{address}/trigger", headers={"Idempotency-Key": "now"})
    again = await operator.post(f"{address}/trigger", headers={"Idempotency-Key": "now"})

    assert (paused["enabled"], paused["pause_reason"], paused["next_run_at"]) == (False, "holidays", None)
    assert coming == ["2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z"]
    assert (resumed["enabled"], resumed["next_run_at"]) == (True, "2026-01-05T10:00:00Z")
    assert (slot.status_code, slot.json()["origin"], again.json()) == (201, "manual", slot.json())
    await settle(api.plane)
    assert [one["status"] for one in (await operator.get(f"{address}/runs")).json()["items"]] == ["success"]
    assert (await operator.delete(address)).status_code == 204
    assert (await operator.post(f"{address}/trigger")).json()["type"] == "/problems/schedule-not-found"
    assert (await operator.get("/schedules")).json()["items"] == []
    assert (await operator.get(address)).json()["removed_at"] is not None
    assert [one["status"] for one in (await operator.get(f"{address}/runs")).json()["items"]] == ["success"]


async def test_a_past_range_is_made_up_for_when_somebody_asks(api: Api, operator: AsyncClient) -> None:
    address = f"/schedules/{(await add(operator, starts_at='2026-01-01T00:00:00Z'))['id']}"

    slots = await operator.post(f"{address}/backfill", json={"start": "2026-01-04T22:00:00Z", "end": "2026-01-05T01:00:00+00:00"})
    wrong = await operator.post(f"{address}/backfill", json={"start": "2026-01-05T01:00:00Z", "end": "2026-01-04T22:00:00Z"})

    assert [slot["scheduled_for"][11:16] for slot in slots.json()] == ["22:00", "23:00", "00:00"]
    assert wrong.status_code == 422
    first = (await operator.get(f"{address}/runs?limit=2")).json()
    rest = (await operator.get(f"{address}/runs", params={"limit": 2, "cursor": first["next"]})).json()
    assert [slot["scheduled_for"][11:16] for slot in [*first["items"], *rest["items"]]] == ["00:00", "23:00", "22:00"]


async def test_revoking_a_grant_pauses_its_schedules_once(operator: AsyncClient) -> None:
    schedule = await add(operator)

    revoked = (await operator.post(f"/grants/{schedule['grant_id']}/revoke", json={"reason": "left"})).json()
    again = await operator.post(f"/grants/{schedule['grant_id']}/revoke", json={})

    assert (revoked["schedules"], revoked["grant"]["revoke_reason"]) == (1, "left")
    assert again.status_code == 409
    assert not (await operator.get(f"/schedules/{schedule['id']}")).json()["enabled"]
    assert (await operator.post(f"/schedules/{schedule['id']}/resume", json={})).json()["type"] == "/problems/grant-refused"


async def test_nobody_grants_more_than_they_hold(api: Api, operator: AsyncClient) -> None:
    """An operator holds what the tenant has. Whoever was granted something cannot make more of it."""
    await api.tenant("other")
    for name, tenant in (("ada", "default"), ("eve", "other")):
        await api.plane.access.add_user(name)
        await api.plane.access.give_role(name, "submitter", tenant=tenant)
    ada = await api.client("submitter", user="ada")
    wish = {"scopes": ["agent:run:echo"], "user": "ada"}

    mine = (await operator.post("/grants", json=wish)).json()["id"]

    assert (await ada.post("/grants", json=wish)).json()["type"] == "/problems/role-missing"
    assert (await ada.post("/schedules", json={**HOURLY, "grant": mine})).json()["type"] == "/problems/role-missing"
    wider = await ada.post("/graphs/agent:fail/runs", json={"grant": mine}, headers={"Idempotency-Key": "k"})
    assert (wider.status_code, wider.json()["type"]) == (403, "/problems/grant-refused")
    assert (await operator.post("/grants", json={**wish, "user": "eve"})).json()["type"] == "/problems/user-not-found"
    assert (await operator.post("/grants", json={**wish, "scopes": ["*"]})).json()["errors"][0]["field"] == "scopes"


async def test_what_runs_used_is_told_by_account_and_by_run(api: Api, operator: AsyncClient) -> None:
    @api.plane.agent("spend")
    async def spend(ctx: Context) -> None:
        ctx.usage(cents=7, prompt_tokens=11)

    await api.tenant("other")
    admin, neighbour = await api.client("admin"), await api.client("admin", tenant="other")
    account = (await admin.post("/billing/accounts", json={"name": "research", "virtual_key": "vk_1"})).json()
    grant = (await operator.post("/grants", json={"scopes": ["agent:run:*"], "billing_account": "research"})).json()["id"]
    run = (await operator.post("/graphs/agent:spend/runs", json={"grant": grant}, headers={"Idempotency-Key": "k"})).json()[
        "run_id"
    ]
    await api.plane.work()

    totals = (await operator.get("/billing/totals")).json()
    receipts = (await operator.get(f"/billing/receipts?run_id={run}")).json()

    assert {(one["billing_account_id"], one["unit"], one["quantity"], one["runs"]) for one in totals} == {
        (account["id"], "cents", 7, 1),
        (account["id"], "prompt_tokens", 11, 1),
    }
    assert {(one["unit"], one["quantity"], one["virtual_key_id"]) for one in receipts} == {
        ("cents", 7, "vk_1"),
        ("prompt_tokens", 11, "vk_1"),
    }
    assert (await admin.get("/billing/accounts/research")).json() == account
    assert [(await neighbour.get(path)).json() for path in ("/billing/totals", "/billing/accounts")] == [[], []]
    assert (await neighbour.get(f"/billing/receipts?run_id={run}")).json()["type"] == "/problems/run-not-found"
    assert (await operator.post("/billing/accounts", json={"name": "x"})).status_code == 403
