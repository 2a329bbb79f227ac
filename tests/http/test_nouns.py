"""Everything beside jobs, once through: what is set over HTTP is what the plane then knows."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import WorkerId
from cortex_plane.webhooks.model import FILTERS
from cortex_plane.worker.model import NewWorker
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


@pytest.fixture
async def root(api: Api) -> AsyncClient:
    """An admin of all tenants."""
    return await api.client("admin", tenant=None)


async def test_the_gate_is_closed_and_opened_with_who_and_why(root: AsyncClient) -> None:
    closed = (await root.post("/gate/close", json={"reason": "release"})).json()
    opened = (await root.post("/gate/open", json={})).json()

    assert (closed["open"], closed["reason"]) == (False, "release")
    assert closed["closed_by"].startswith("key:")
    assert opened == {"open": True, "closed_by": None, "closed_at": None, "reason": None}
    assert (await root.get("/gate")).json()["open"]


async def test_queues_are_listed_paused_limited_and_shared(api: Api, root: AsyncClient) -> None:
    await api.submit()
    await root.post("/queues/default/pause", json={"reason": "slow"})
    await root.put("/queues/default/limit", json={"max_running": 3})
    await root.put("/queues/default/share", json={"fair_share": True})

    [queue] = (await root.get("/queues")).json()

    assert (queue["name"], queue["waiting"], queue["running"]) == ("default", {"ready": 1}, 0)
    control = queue["control"]
    assert (control["paused"], control["max_running"], control["fair_share"]) == (True, 3, True)
    assert not (await root.post("/queues/default/resume", json={})).json()["paused"]
    assert (await root.put("/queues/default/limit", json={"max_running": 0})).status_code == 422
    assert (await root.put("/queues/default/limit", json={})).status_code == 422
    assert (await root.post("/queues/cortex/pause", json={})).status_code == 422


async def test_agents_are_listed_without_the_planes_own(root: AsyncClient) -> None:
    assert [agent["name"] for agent in (await root.get("/agents")).json()] == ["echo", "fail"]
    assert (await root.post("/agents/echo/pause", json={})).json()["paused"]
    assert (await root.get("/agents/echo")).json()["control"]["paused"]
    assert (await root.put("/agents/echo/limit", json={"max_running": 2})).json()["max_running"] == 2
    assert (await root.get("/agents/nobody")).json()["type"] == "/problems/agent-not-found"


async def test_tenants_are_added_once_and_looked_at(api: Api, root: AsyncClient) -> None:
    added = await root.post("/tenants", json={"name": "acme"})
    again = await root.post("/tenants", json={"name": "acme"})
    await api.submit(tenant="acme")

    assert (added.status_code, again.status_code) == (201, 409)
    assert [tenant["name"] for tenant in (await root.get("/tenants")).json()] == ["acme", "default"]
    assert (await root.get("/tenants/acme")).json()["waiting"] == {"ready": 1}
    assert (await root.get("/stats?tenant=acme")).json() == {
        "tenant": "acme",
        "running": 0,
        "waiting": {"ready": 1},
        "spent_cents": 0,
    }
    assert (await root.post("/tenants/acme/pause", json={})).json()["control"]["paused"]


async def test_budgets_are_set_seen_by_their_tenant_and_removed(api: Api, root: AsyncClient, admin: AsyncClient) -> None:
    await api.tenant("other")
    neighbour = await api.client("viewer", tenant="other")
    await root.put("/budgets/tenant/default", json={"cents": 500})
    await root.put("/budgets/agent/echo", json={"cents": 9, "on_exhausted": "pause"})

    assert len((await root.get("/budgets")).json()) == 2
    assert [budget["label"] for budget in (await admin.get("/budgets")).json()] == ["default"]
    assert (await neighbour.get("/budgets")).json() == []
    assert (await root.delete("/budgets/agent/echo")).status_code == 204
    assert (await root.delete("/budgets/agent/echo")).status_code == 404
    assert (await root.put("/budgets/queue/default", json={"cents": 5})).status_code == 422
    assert (await admin.get("/costs")).json() == []


async def test_a_job_from_a_template_takes_a_retry_policy_of_its_own(admin: AsyncClient) -> None:
    await admin.put("/templates/nightly", json={"agent": "echo", "max_retries": 9})

    job = (await admin.post("/templates/nightly/jobs", json={"retry": {"mode": "chain", "max_retries": 4}})).json()

    assert (job["retry_policy"]["mode"], job["max_retries"]) == ("chain", 4)


async def test_templates_are_saved_changed_submitted_and_removed(admin: AsyncClient) -> None:
    first = (await admin.put("/templates/nightly", json={"agent": "echo", "params": {"word": "a"}, "priority": 4})).json()
    second = (await admin.put("/templates/nightly", json={"agent": "echo", "params": {"word": "b"}})).json()
    job = (await admin.post("/templates/nightly/jobs", json={"overrides": {"word": "c"}, "tags": ["x"]})).json()

    assert (first["version"], second["version"]) == (1, 2)
    assert (job["payload"], job["tags"], job["template_id"]) == ({"word": "c"}, ["x"], first["id"])
    assert [template["name"] for template in (await admin.get("/templates")).json()] == ["nightly"]
    assert (await admin.delete("/templates/nightly")).status_code == 204
    assert (await admin.get("/templates/nightly")).json()["type"] == "/problems/template-not-found"


async def test_groups_are_submitted_looked_at_and_cancelled(admin: AsyncClient) -> None:
    body = {"members": [{"agent": "echo"}, {"agent": "fail"}], "mode": "sequential", "name": "pair"}
    made = await admin.post("/groups", json=body)
    group_id = made.json()["id"]

    view = (await admin.get(f"/groups/{group_id}")).json()
    members = (await admin.get(f"/groups/{group_id}/members")).json()

    assert made.headers["location"] == f"/api/v1/groups/{group_id}"
    assert (view["status"], view["name"], view["tally"]["held"]) == ("PENDING", "pair", 1)
    assert [member["id"] for member in members] == made.json()["jobs"]
    assert [group["id"] for group in (await admin.get("/groups")).json()["items"]] == [group_id]
    assert (await admin.post(f"/groups/{group_id}/cancel", json={})).json() == {"cancelled": 2}
    assert (await admin.post(f"/groups/{group_id}/cancel", json={})).status_code == 409


@pytest.mark.parametrize("event", FILTERS)
async def test_every_event_can_be_listened_to(admin: AsyncClient, event: str) -> None:
    made = await admin.post("/webhooks", json={"url": "https://example.com/hook", "events": [event]})

    assert made.json()["endpoint"]["events"] == [event]
    await admin.delete(f"/webhooks/{made.json()['id']}")


async def test_operators_in_a_channel_are_told_of_what_needs_them(admin: AsyncClient) -> None:
    made = await admin.post("/webhooks", json={"url": "email:ops@example.com"})

    assert made.json()["endpoint"]["events"] == ["job.held", "job.uncertain", "approval.undecidable"]
    await admin.delete(f"/webhooks/{made.json()['id']}")


async def test_webhooks_are_added_with_a_secret_that_is_shown_once(admin: AsyncClient, root: AsyncClient) -> None:
    made = (await admin.post("/webhooks", json={"url": "https://example.com/hook", "events": ["job.failed"]})).json()
    listed = await admin.get("/webhooks")
    private = await admin.post("/webhooks", json={"url": "http://10.0.0.1/x", "allow_private": True})
    allowed = await root.post("/webhooks", json={"url": "http://10.0.0.1/x", "allow_private": True})
    refused = await admin.post("/webhooks", json={"url": "http://10.0.0.1/x"})

    assert made["secret"].startswith("whsec_")
    assert made["secret"] not in listed.text
    assert (private.status_code, allowed.status_code, refused.status_code) == (403, 201, 422)
    endpoint_id = made["id"]
    assert not (await admin.post(f"/webhooks/{endpoint_id}/disable", json={"reason": "away"})).json()["enabled"]
    assert (await admin.post(f"/webhooks/{endpoint_id}/enable")).json()["enabled"]
    assert (await admin.post(f"/webhooks/{endpoint_id}/test")).json()["queue"] == "cortex"
    assert (await admin.get("/dead-letters")).json() == {"items": [], "next": None}
    assert (await admin.delete(f"/webhooks/{endpoint_id}")).status_code == 204
    assert (await admin.get(f"/webhooks/{endpoint_id}")).status_code == 404


async def test_the_audit_is_read_page_by_page_and_verified(admin: AsyncClient, root: AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await admin.put(f"/templates/{name}", json={"agent": "echo"})
    first = (await admin.get("/audit", params={"action": "TEMPLATE_SAVED", "limit": 2})).json()
    rest = (await admin.get("/audit", params={"action": "TEMPLATE_SAVED", "limit": 2, "cursor": first["next"]})).json()

    names = [record["entry"]["details"]["name"] for page in (first, rest) for record in page["items"]]
    assert names == ["c", "b", "a"]
    assert rest["next"] is None
    assert (await root.post("/audit/verify")).json()["findings"] == []
    assert (await admin.get("/audit", params={"cursor": "YXVkaXQ6OTk5OTk5"})).status_code == 422
    assert len((await root.get("/audit/all")).json()["items"]) >= 3


async def test_workers_are_listed(api: Api, root: AsyncClient) -> None:
    await api.plane.work()

    [worker] = (await root.get("/workers")).json()

    assert worker["status"] == "STOPPED"


async def test_a_worker_is_asked_to_leave_by_those_who_may(api: Api, root: AsyncClient) -> None:
    worker_id = WorkerId(new_id())
    await api.plane.store.workers.register(NewWorker(worker_id, "host:1", ("default",), ("echo",), 5))
    viewer = await api.client("viewer", tenant=None)

    refused = await viewer.post(f"/workers/{worker_id}/drain", json={})
    first = (await root.post(f"/workers/{worker_id}/drain", json={"reason": "a new machine"})).json()
    again = (await root.post(f"/workers/{worker_id}/drain", json={"reason": "another"})).json()
    unknown = await root.post(f"/workers/{new_id()}/drain", json={})
    await api.plane.store.workers.leave(worker_id)
    gone = await root.post(f"/workers/{worker_id}/drain", json={})

    assert refused.status_code == 403
    assert (first["status"], first["drain_reason"]) == ("LIVE", "a new machine")
    assert first["drain_asked_by"].startswith("key:")
    assert again == first
    assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/worker-not-found")
    assert (gone.status_code, gone.json()["type"]) == (409, "/problems/worker-has-ended")
