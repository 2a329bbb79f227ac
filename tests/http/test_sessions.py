"""Sessions over HTTP: who starts them, who sees them, and whom jobs that come out of them ask."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from cortex_plane import Context
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


async def person(api: Api, name: str, role: str = "submitter") -> AsyncClient:
    await api.plane.access.add_user(name)
    await api.plane.access.give_role(name, role, tenant="default")
    return await api.client(role, user=name)


async def test_a_job_of_a_session_asks_its_user_where_nobody_is_named(api: Api) -> None:
    @api.plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?")

    ann = await person(api, "ann")
    started = await ann.post("/sessions", json={"channel": "slack", "agent": "gate"})
    session = started.json()

    job = (await ann.post("/jobs", json={"agent": "gate", "session": session["id"]})).json()
    await api.plane.work()

    assert (started.status_code, session["channel"], session["ended_at"]) == (201, "slack", None)
    assert job["session_id"] == session["id"]
    (request,) = await api.plane.approvals.list()
    assert await api.plane.approvals.asked(request) == ["ann"]


async def test_an_operator_starts_a_session_for_somebody_and_others_do_not(api: Api) -> None:
    ann, boss = await person(api, "ann"), await api.client("operator")
    await person(api, "ben")

    theirs = await boss.post("/sessions", json={"user": "ann"})
    refused = await ann.post("/sessions", json={"user": "ben"})
    nobodys = await boss.post("/sessions", json={})

    assert theirs.status_code == 201
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/role-missing")
    assert (nobodys.status_code, "user" in nobodys.json()["detail"]) == (409, True)


async def test_one_sees_and_uses_one_s_own_sessions_and_operators_those_of_the_tenant(api: Api) -> None:
    ann, ben, boss = await person(api, "ann"), await person(api, "ben"), await api.client("operator")
    await api.tenant("other")
    stranger = await api.client("admin", tenant="other")
    hers = (await ann.post("/sessions", json={})).json()["id"]
    his = (await ben.post("/sessions", json={})).json()["id"]

    async def listed(client: AsyncClient, query: str = "") -> list[str]:
        return [one["id"] for one in (await client.get(f"/sessions{query}")).json()["items"]]

    assert (await listed(ann), await listed(ben), await listed(boss)) == ([hers], [his], [his, hers])
    assert await listed(boss, "?user=ann") == [hers]
    assert [(await client.get(f"/sessions/{hers}")).status_code for client in (ann, ben, boss, stranger)] == [200, 404, 200, 404]
    assert (await ben.post("/jobs", json={"agent": "echo", "session": hers})).status_code == 404
    assert (await ben.post(f"/sessions/{hers}/end")).status_code == 404


async def test_no_job_comes_out_of_a_session_that_has_ended(api: Api) -> None:
    ann = await person(api, "ann")
    session = (await ann.post("/sessions", json={})).json()["id"]

    ended = await ann.post(f"/sessions/{session}/end")
    again = await ann.post(f"/sessions/{session}/end")
    refused = await ann.post("/jobs", json={"agent": "echo", "session": session})

    assert ended.json()["ended_at"] == again.json()["ended_at"] is not None
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "session")


async def test_a_job_of_a_template_comes_out_of_one_s_own_session_only(api: Api) -> None:
    await api.plane.templates.save("usual", "echo", {"word": "hi"})
    ann, _ = [await person(api, name) for name in ("ann", "ben")]
    hers, his = [await api.plane.people.start_session(name) for name in ("ann", "ben")]

    own = await ann.post("/templates/usual/jobs", json={"session": hers.id})
    other = await ann.post("/templates/usual/jobs", json={"session": his.id})
    await api.plane.people.end_session(hers.id)
    ended = await ann.post("/templates/usual/jobs", json={"session": hers.id})

    assert (own.status_code, own.json()["session_id"]) == (201, hers.id)
    assert (other.status_code, ended.status_code) == (404, 422)


async def test_jobs_of_groups_and_templates_have_the_trace_of_their_caller(api: Api, admin: AsyncClient) -> None:
    await api.plane.templates.save("usual", "echo", {"word": "hi"})

    @api.plane.agent("after")
    async def after(ctx: Context, group: dict[str, Any]) -> None: ...

    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    member = {"agent": "echo", "payload": {"word": "hi"}}
    group = await admin.post("/groups", json={"members": [member], "callback": {"agent": "after"}}, headers=headers)
    job = await admin.post("/templates/usual/jobs", json={}, headers=headers)
    await api.plane.work()

    [called] = [one.id for one in await api.plane.jobs.list(agent="after")]
    for job_id in (*group.json()["jobs"], job.json()["id"], called):
        assert trace in ((await api.plane.jobs.get(job_id)).trace_id or "")
