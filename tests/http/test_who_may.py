"""Every route, for every role, in every tenant: who does not belong is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from fastapi import APIRouter
from httpx import AsyncClient, Response

from cortex_plane.durable.context import Context
from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.http import routers as mounting
from cortex_plane.http.app import create_app
from cortex_plane.http.auth import Requirement
from cortex_plane.http.routers import served_by
from cortex_plane.ids import new_id
from cortex_plane.jobs.fields import Submission
from cortex_plane.people.roles import Role, holds
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

# What belongs to one tenant and is named in the address.
OBJECTS = (
    "{job_id}",
    "{group_id}",
    "{endpoint_id}",
    "{key_id}",
    "{approval_id}",
    "/templates/{name}",
    "{schedule_id}",
    "{session_id}",
    "{grant_id}",
    "{run_id}",
    "{beginning}",
    "/billing/accounts/{name}",
)


class Call(NamedTuple):
    method: str
    path: str
    address: str
    requirement: Requirement


async def every_call(api: Api) -> list[Call]:
    """Each route with the ids of things that the tenant `default` has."""
    job_id = await api.submit()
    await api.plane.jobs.cancel(job_id)
    group = await api.plane.groups.submit([Submission("echo")])
    endpoint = (await api.plane.webhooks.add("https://example.com/hook")).endpoint
    key = (await api.plane.access.add_key("mine", ["viewer"], tenant="default")).key
    await api.plane.templates.save("nightly", "echo")
    await api.plane.billing.add("nightly")
    schedule = await api.plane.schedules.add("nightly", "agent:echo", "0 3 * * *")
    await api.plane.people.add("ursula")
    session = await api.plane.people.start_session("ursula")
    wish = RunWish("agent:echo", "a key", schedule.grant_id, {})
    run = await start_run(api.plane.store, api.plane.directory, api.plane.clock, new_id, wish)
    values = {
        "schedule_id": schedule.id,
        "grant_id": schedule.grant_id,
        "session_id": session.id,
        "graph_id": "agent:echo",
        "run_id": run.run_id,
        "job_id": job_id,
        "group_id": group.id,
        "endpoint_id": endpoint.id,
        "key_id": key.id,
        "reservation_id": job_id,
        "worker_id": job_id,
        "rule_id": job_id,
        "user": "nobody",
        "name": "nightly",
        "scope": "agent",
        "code": "not-found",
        "kind": "job",
        "channel_id": job_id,
        "beginning": job_id,
        "approval_id": job_id,
        "token": "cortex_apr_1_unknown",
    }
    found: list[Call] = []
    for route in served_by(api.app):
        assert route.requirement is not None
        for method in route.methods:
            found.append(Call(method, route.path, "http://localhost" + route.path.format(**values), route.requirement))
    assert len(found) > 90
    # What takes things away comes last.
    return sorted(found, key=lambda call: call.method == "DELETE")


asked = Counter[str]()


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """How many requests each test makes, for `make security`."""
    asked.clear()
    yield
    record_property("tried", asked.total())


async def answer(client: AsyncClient, call: Call, query: str = "") -> Response:
    asked[call.path] += 1
    return await client.request(call.method, call.address + query)


async def test_a_stranger_is_refused_everywhere_but_at_the_open_doors(api: Api) -> None:
    stranger, forger = await api.stranger(), await api.stranger(Authorization="Bearer ctx_made_up")
    open_doors: set[str] = set()
    for call in await every_call(api):
        if call.requirement.open:
            open_doors.add(call.path)
            continue
        for client in (stranger, forger):
            refused = await answer(client, call)
            assert refused.status_code in (401, 429), call
            assert refused.json()["type"] in ("/problems/not-signed-in", "/problems/too-many-tries")

    assert {path for path in open_doors if not path.startswith(("/docs", "/problems"))} == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/api/v1/session",
        "/api/approvals/approve",
        "/api/approvals/deny",
        "/api/approvals/{token}/approve",
        "/api/approvals/{token}/deny",
        "/approvals/{token}",
        "/approval-page.css",
        "/api/channels/telegram",
        "/api/channels/discord",
        "/api/channels/slack",
    }


@pytest.mark.parametrize("role", Role)
async def test_each_role_may_do_what_it_says_and_no_more(api: Api, role: Role) -> None:
    client = await api.client(role)
    for call in await every_call(api):
        if call.requirement.open or call.requirement.role is None:
            continue
        got = await answer(client, call)
        if call.requirement.everywhere or not holds([role], call.requirement.role):
            assert (got.status_code, got.json()["type"]) == (403, "/problems/role-missing"), call
        else:
            assert got.status_code not in (401, 403, 500, 503), (call, got.text)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
async def test_a_role_in_all_tenants_opens_what_belongs_to_all(api: Api, role: Role) -> None:
    client = await api.client(role, tenant=None)
    for call in await every_call(api):
        if call.requirement.open or call.requirement.role is None:
            continue
        got = await answer(client, call)
        assert (got.status_code == 403) is (not holds([role], call.requirement.role)), (call, got.text)
        assert got.status_code < 500, (call, got.text)


# Whoever has tried a hundred wrong keys is not even looked at any more.
REFUSED = ("/problems/not-signed-in", "/problems/too-many-tries")


async def test_no_key_opens_the_execution_service_and_its_secret_opens_nothing_else(api: Api) -> None:
    everybody = [await api.client("admin", "approver", tenant=None), await api.client("operator")]
    service = await api.service()
    internal = 0
    for call in await every_call(api):
        if call.requirement.service:
            internal += 1
            assert {(await answer(client, call)).status_code for client in everybody} == {401}, call
            assert (await answer(service, call)).status_code in (200, 422), call
        elif not call.requirement.open:
            assert (await answer(service, call)).json()["type"] in REFUSED, call

    assert internal == 3


async def test_what_belongs_to_another_tenant_is_not_there(api: Api) -> None:
    await api.tenant("other")
    neighbour = await api.client("admin", "approver", tenant="other")
    for call in await every_call(api):
        if call.requirement.open or call.requirement.role is None:
            continue
        got = await answer(neighbour, call)
        if call.requirement.everywhere:
            assert got.status_code == 403, call
        elif any(part in call.path for part in OBJECTS):
            assert got.status_code == (422 if _needs_a_body(api, call) else 404), (call, got.text)
        elif got.status_code == 200 and call.method == "GET":
            assert "nightly" not in got.text, call


async def test_an_object_of_another_tenant_is_not_there_for_a_good_request_either(api: Api) -> None:
    await api.tenant("other")
    await api.plane.access.add_user("eve")
    for role in ("admin", "approver"):
        await api.plane.access.give_role("eve", role, tenant="other")
    neighbour = await api.client("admin", "approver", tenant="other", user="eve")
    job_id = await api.submit()
    own = (await neighbour.post("/jobs", json={"agent": "echo"})).json()["id"]
    await api.plane.templates.save("nightly", "echo")
    group = await api.plane.groups.submit([Submission("echo")])
    endpoint = (await api.plane.webhooks.add("https://example.com/hook")).endpoint
    schedule = await api.plane.schedules.add("nightly", "agent:echo", "0 3 * * *")
    mine = {"name": "mine", "target": "agent:echo", "cron": "0 3 * * *"}
    own_schedule = (await neighbour.post("/schedules", json=mine)).json()["id"]
    started = {"grant": schedule.grant_id}
    request = await _asked(api)

    answers = [
        *[await neighbour.get(f"/approvals/{request}{part}") for part in ("", "/votes", "/approvers", "/notifications")],
        *[await neighbour.post(f"/approvals/{request}/{verb}", json={}) for verb in ("approve", "deny", "remind")],
        await neighbour.patch(f"/schedules/{schedule.id}", json={"cron": "0 4 * * *"}),
        await neighbour.patch(f"/schedules/{own_schedule}", json={"grant": schedule.grant_id}),
        await neighbour.post(f"/schedules/{schedule.id}/pause", json={}),
        await neighbour.post(f"/schedules/{schedule.id}/resume", json={}),
        await neighbour.post("/schedules", json={**mine, "name": "theirs", "grant": schedule.grant_id}),
        await neighbour.post(f"/grants/{schedule.grant_id}/revoke", json={}),
        await neighbour.post("/grants", json={"scopes": ["agent:run:*"], "billing_account": "nightly"}),
        await neighbour.post("/graphs/agent:echo/runs", json=started, headers={"Idempotency-Key": "k"}),
        await neighbour.post(f"/jobs/{job_id}/move", json={"place": "front"}),
        await neighbour.post(f"/jobs/{own}/move", json={"place": "before", "anchor": job_id}),
        await neighbour.put(f"/jobs/{job_id}/priority", json={"priority": 1}),
        await neighbour.post(f"/jobs/{job_id}/fork", json={"from_step": "x"}),
        await neighbour.post("/templates/nightly/jobs", json={}),
        await neighbour.post(f"/groups/{group.id}/cancel", json={}),
        await neighbour.post(f"/webhooks/{endpoint.id}/disable", json={}),
    ]

    assert [one.status_code for one in answers] == [404] * len(answers)
    for noun, verb, theirs in (("job", "cancel", job_id), ("approval", "approve", request)):
        many = (await neighbour.post(f"/bulk/{noun}s/{verb}", json={"ids": [theirs]})).json()
        assert many["done"] == []
        assert many["refused"][0]["problem"]["type"] == f"/problems/{noun}-not-found"
    assert [one.id for one in await api.plane.approvals.list()] == [request]


async def _asked(api: Api) -> str:
    @api.plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?")

    await api.plane.submit("gate")
    await api.plane.work()
    (request,) = await api.plane.approvals.list()
    return request.id


async def test_naming_a_tenant_in_which_one_has_no_role_is_like_naming_none_that_exists(api: Api) -> None:
    await api.tenant("other")
    neighbour = await api.client("admin", tenant="other")
    for call in await every_call(api):
        if call.requirement.open or call.requirement.service:
            continue
        got = await answer(neighbour, call, "?tenant=default")
        made_up = await answer(neighbour, call, "?tenant=nowhere")
        assert (got.status_code, got.json()["type"]) == (404, "/problems/tenant-not-found"), call
        assert made_up.json()["type"] == got.json()["type"]


async def test_an_admin_of_all_tenants_may_name_one_by_parameter_or_header(api: Api) -> None:
    await api.tenant("other")
    admin = await api.client("admin", tenant=None)
    job_id = await api.submit(tenant="other")

    assert (await admin.get(f"/jobs/{job_id}")).status_code == 404
    assert (await admin.get(f"/jobs/{job_id}?tenant=other")).status_code == 200
    assert (await admin.get(f"/jobs/{job_id}", headers={"X-Cortex-Tenant": "other"})).status_code == 200


async def test_a_route_that_declares_nothing_is_not_served(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = APIRouter()

    @silent.get("/silent")
    async def route() -> None: ...

    monkeypatch.setattr(mounting, "ROUTERS", [*mounting.ROUTERS, silent])

    with pytest.raises(AssertionError, match=r"do not say who may call them: /silent"):
        create_app(api.plane)


def _needs_a_body(api: Api, call: Call) -> bool:
    operation = api.app.openapi()["paths"][call.path][call.method.lower()]
    return bool(operation.get("requestBody", {}).get("required"))
