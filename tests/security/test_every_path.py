"""Ann may steer and decide. By no way that leads through HTTP or the pages does she approve what she is behind; Ben may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from httpx import ASGITransport, AsyncClient, Response

from cortex_plane.durable.context import Context
from cortex_plane.http.auth import COOKIE, CSRF_HEADER, csrf_token
from cortex_plane.people.login import open_sign_in
from tests.apps import dashboard_of
from tests.contract.schedule_scene import settle
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

ROLES = ("admin", "approver")


CRON = {"name": "nightly", "target": "agent:gate", "cron": "0 3 * * *"}


async def ok(answering: Awaitable[Response]) -> Any:
    answer = await answering
    assert answer.status_code in (200, 201, 202, 204), answer.text
    return answer.json() if answer.content else None


class Office:
    """Ann, Ben and Carl, each with a key of their own, as their programs would use it."""

    def __init__(self, api: Api, ann: AsyncClient, ben: AsyncClient, carl: AsyncClient) -> None:
        self.api, self.ann, self.ben, self.carl = api, ann, ben, carl

    async def ended(self) -> str:
        """A job of Carl's that has come to its gate and was cancelled there."""
        job = await ok(self.carl.post("/jobs", json={"agent": "gate"}))
        await self.api.plane.work()
        await ok(self.carl.post(f"/jobs/{job['id']}/cancel"))
        return str(job["id"])


@pytest.fixture
async def office(api: Api) -> Office:
    @api.plane.agent("gate")
    async def gate(ctx: Context, topic: str = "") -> None:
        async def look() -> str:
            return topic

        await ctx.step("look", look)
        await ctx.approval(f"Do it: {topic}", no_self_approval=True)

    @api.plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    @api.plane.agent("gate_of_group")
    async def gate_of_group(ctx: Context, group: dict[str, Any]) -> None:
        await ctx.approval("Do it", no_self_approval=True)

    @api.plane.agent("caller")
    async def caller(ctx: Context) -> None:
        await ctx.call("gate")

    clients = []
    for name in ("ann", "ben", "carl"):
        await api.plane.access.add_user(name)
        for role in ROLES:
            await api.plane.access.give_role(name, role)
        clients.append(await api.client(*ROLES, user=name, actor=f"user:{name}"))
    return Office(api, *clients)


async def submits(office: Office) -> None:
    await ok(office.ann.post("/jobs", json={"agent": "gate"}))


async def submits_many(office: Office) -> None:
    await ok(office.ann.post("/bulk/jobs", json={"jobs": [{"agent": "gate"}]}))


async def submits_by_another_key(office: Office) -> None:
    key = await ok(office.ann.post("/keys", json={"name": "second", "roles": ["submitter"]}))
    await ok((await office.api.stranger(Authorization=f"Bearer {key['secret']}")).post("/jobs", json={"agent": "gate"}))


async def submits_by_a_service_account_and_gives_it_away(office: Office) -> None:
    everywhere = await office.api.client("admin", tenant=None, user="ann", actor="user:ann")
    await ok(everywhere.post("/users", json={"name": "ci", "owner": "ann"}))
    await ok(everywhere.post("/users/ci/give-role", json={"role": "submitter"}))
    key = await ok(office.ann.post("/keys", json={"name": "ci", "roles": ["submitter"], "user": "ci"}))
    await ok((await office.api.stranger(Authorization=f"Bearer {key['secret']}")).post("/jobs", json={"agent": "gate"}))
    await ok(everywhere.put("/users/ci/owner", json={"owner": "carl"}))
    await ok(office.ann.delete(f"/keys/{key['key']['id']}"))


async def submits_by_the_key_of_a_key_that_is_nobody_s(office: Office) -> None:
    first = await office.api.client("admin", actor="cli:ann")
    key = await ok(first.post("/keys", json={"name": "second", "roles": ["admin"]}))
    second = await office.api.stranger(Authorization=f"Bearer {key['secret']}")
    key = await ok(second.post("/keys", json={"name": "third", "roles": ["submitter"]}))
    await ok((await office.api.stranger(Authorization=f"Bearer {key['secret']}")).post("/jobs", json={"agent": "gate"}))


async def submits_by_the_key_of_a_service_account_s_key_and_gives_it_away(office: Office) -> None:
    everywhere = await office.api.client("admin", tenant=None, user="ann", actor="user:ann")
    await ok(everywhere.post("/users", json={"name": "ci", "owner": "ann"}))
    await ok(everywhere.post("/users/ci/give-role", json={"role": "admin"}))
    key = await ok(office.ann.post("/keys", json={"name": "ci", "roles": ["admin"], "user": "ci"}))
    first = await office.api.stranger(Authorization=f"Bearer {key['secret']}")
    key = await ok(first.post("/keys", json={"name": "second", "roles": ["submitter"]}))
    await ok((await office.api.stranger(Authorization=f"Bearer {key['secret']}")).post("/jobs", json={"agent": "gate"}))
    await ok(everywhere.put("/users/ci/owner", json={"owner": "carl"}))


async def submits_out_of_her_session_which_she_ends(office: Office) -> None:
    session = await ok(office.ann.post("/sessions", json={}))
    await ok(office.ann.post("/jobs", json={"agent": "gate", "session": session["id"]}))
    await ok(office.ann.post(f"/sessions/{session['id']}/end"))


async def submits_a_parent(office: Office) -> None:
    await ok(office.ann.post("/jobs", json={"agent": "caller"}))


async def submits_a_group(office: Office) -> None:
    await ok(office.ann.post("/groups", json={"members": [{"agent": "gate"}]}))


async def submits_a_group_with_a_callback(office: Office) -> None:
    await ok(office.ann.post("/groups", json={"members": [{"agent": "quick"}], "callback": {"agent": "gate_of_group"}}))


async def submits_a_template(office: Office) -> None:
    await ok(office.carl.put("/templates/usual", json={"agent": "gate"}))
    await ok(office.ann.post("/templates/usual/jobs", json={}))


async def edits_the_template_that_another_submits(office: Office) -> None:
    await ok(office.carl.put("/templates/usual", json={"agent": "gate"}))
    await ok(office.ann.put("/templates/usual", json={"agent": "gate", "params": {"topic": "mine"}}))
    await ok(office.carl.post("/templates/usual/jobs", json={}))


async def edits_the_template_of_another_s_schedule(office: Office) -> None:
    await ok(office.carl.put("/templates/usual", json={"agent": "gate"}))
    schedule = await ok(office.carl.post("/schedules", json={**CRON, "target": "template:usual"}))
    await ok(office.ann.put("/templates/usual", json={"agent": "gate", "params": {"topic": "mine"}}))
    await ok(office.carl.post(f"/schedules/{schedule['id']}/trigger"))


async def edits_a_schedule(office: Office) -> None:
    schedule = await ok(office.carl.post("/schedules", json=CRON))
    await ok(office.ann.patch(f"/schedules/{schedule['id']}", json={"input": {"topic": "mine"}}))
    await ok(office.carl.post(f"/schedules/{schedule['id']}/trigger"))


async def triggers_a_schedule(office: Office) -> None:
    schedule = await ok(office.carl.post("/schedules", json=CRON))
    await ok(office.ann.post(f"/schedules/{schedule['id']}/trigger"))


async def backfills_a_schedule(office: Office) -> None:
    schedule = await ok(office.carl.post("/schedules", json=CRON))
    until = office.api.plane.clock.moment()
    span = {"start": (until - timedelta(days=1)).isoformat(), "end": until.isoformat()}
    await ok(office.ann.post(f"/schedules/{schedule['id']}/backfill", json=span))


async def has_another_use_her_grant(office: Office) -> None:
    grant = await ok(office.ann.post("/grants", json={"scopes": ["agent:run:*"], "user": "ann"}))
    started = {"grant": grant["id"]}
    await ok(office.carl.post("/graphs/agent:caller/runs", json=started, headers={"Idempotency-Key": "k"}))


async def uses_another_s_grant(office: Office) -> None:
    grant = await ok(office.carl.post("/grants", json={"scopes": ["agent:run:*"], "user": "carl"}))
    started = {"grant": grant["id"]}
    await ok(office.ann.post("/graphs/agent:gate/runs", json=started, headers={"Idempotency-Key": "k"}))


async def retries(office: Office) -> None:
    await ok(office.ann.post(f"/jobs/{await office.ended()}/retry"))


async def retries_many(office: Office) -> None:
    await ok(office.ann.post("/bulk/jobs/retry", json={"ids": [await office.ended()]}))


async def resumes(office: Office) -> None:
    await ok(office.ann.post(f"/jobs/{await office.ended()}/resume"))


async def resumes_many(office: Office) -> None:
    await ok(office.ann.post("/bulk/jobs/resume", json={"ids": [await office.ended()]}))


async def forks(office: Office) -> None:
    await ok(office.ann.post(f"/jobs/{await office.ended()}/fork", json={"from_step": "look"}))


PATHS = [
    submits,
    submits_many,
    submits_by_another_key,
    submits_by_a_service_account_and_gives_it_away,
    submits_by_the_key_of_a_key_that_is_nobody_s,
    submits_by_the_key_of_a_service_account_s_key_and_gives_it_away,
    submits_out_of_her_session_which_she_ends,
    submits_a_parent,
    submits_a_group,
    submits_a_group_with_a_callback,
    submits_a_template,
    edits_the_template_that_another_submits,
    edits_the_template_of_another_s_schedule,
    edits_a_schedule,
    triggers_a_schedule,
    backfills_a_schedule,
    has_another_use_her_grant,
    uses_another_s_grant,
    retries,
    retries_many,
    resumes,
    resumes_many,
    forks,
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
async def test_nobody_approves_what_they_are_behind(office: Office, path: Callable[[Office], Awaitable[None]]) -> None:
    api = office.api
    await path(office)
    await settle(api.plane)

    (request,) = await api.plane.approvals.list()
    page = await signed_in(api, "ann")
    form = {"csrf_token": page.csrf, "decision": "approved"}
    by_form = await page.client.post(f"/approvals/requests/{request.id}/decide", data=form)
    by_forms = await page.client.post("/approvals/requests/decide", data={**form, "ids": [request.id]})
    refused = [
        await office.ann.post(f"/approvals/{request.id}/approve", json={}),
        await page.api.post(f"/approvals/{request.id}/approve", json={}),
    ]
    many = await ok(office.ann.post("/bulk/approvals/approve", json={"ids": [request.id]}))

    assert [one.status_code for one in refused] == [403, 403]
    assert (len(many["done"]), len(many["refused"])) == (0, 1)
    assert [one.status_code for one in (by_form, by_forms)] == [303, 303]
    (still,) = await api.plane.approvals.list()
    assert still.id == request.id
    await ok(office.ben.post(f"/approvals/{request.id}/approve", json={}))
    assert await api.plane.approvals.list() == []


class SignedIn(NamedTuple):
    """A browser, on the pages and on the API."""

    client: AsyncClient
    api: AsyncClient
    csrf: str


async def signed_in(api: Api, name: str) -> SignedIn:
    token = (await open_sign_in(api.plane.store, await api.plane.access.user(name))).token
    pages = AsyncClient(transport=ASGITransport(dashboard_of(api.plane)), base_url="http://localhost", cookies={COOKIE: token})
    calls = await api.stranger(**{CSRF_HEADER: csrf_token(token)})
    calls.cookies.set(COOKIE, token)
    return SignedIn(pages, calls, csrf_token(token))
