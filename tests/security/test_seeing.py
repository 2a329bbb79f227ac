"""What is not yours is not there: people, reasons, budgets and jobs of other tenants."""

from __future__ import annotations

import pytest
from httpx import ASGITransport, AsyncClient

from cortex_plane import Context
from cortex_plane.dashboard.app import create_dashboard
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


async def _two_tenants(api: Api) -> None:
    await api.tenant("acme")
    for name, tenant in (("ada", "default"), ("eve", "acme")):
        await api.plane.access.add_user(name, email=f"{name}@example.com")
        await api.plane.access.give_role(name, "viewer", tenant=tenant)


@pytest.mark.parametrize("verb", ["give-role", "take-role"])
async def test_roles_do_not_tell_who_exists_elsewhere(api: Api, verb: str) -> None:
    await _two_tenants(api)
    admin, of_all = await api.client("admin"), await api.client("admin", tenant=None)

    elsewhere = await admin.post(f"/users/eve/{verb}", json={"role": "viewer"})
    nobody = await admin.post(f"/users/nobody/{verb}", json={"role": "viewer"})
    here = await admin.post(f"/users/ada/{verb}", json={"role": "operator"})

    assert elsewhere.status_code == nobody.status_code == 404
    assert elsewhere.json()["detail"].replace("eve", "nobody") == nobody.json()["detail"]
    assert here.status_code == 200
    assert (await of_all.post("/users/eve/give-role", json={"role": "viewer"})).status_code == 200


async def test_a_group_takes_only_people_of_its_tenant_and_shows_no_addresses(api: Api) -> None:
    await _two_tenants(api)
    admin, of_all = await api.client("admin"), await api.client("admin", tenant=None)
    await admin.post("/user-groups", json={"name": "deciders"})

    elsewhere = await admin.put("/user-groups/deciders/members/eve")
    left = await admin.delete("/user-groups/deciders/members/eve")
    nobody = await admin.put("/user-groups/deciders/members/nobody")
    here = await admin.put("/user-groups/deciders/members/ada")

    assert [one.status_code for one in (elsewhere, left, nobody, here)] == [404, 404, 404, 204]
    assert elsewhere.json()["detail"].replace("eve", "nobody") == nobody.json()["detail"]
    shown = (await admin.get("/user-groups/deciders/members")).json()
    assert [(one["name"], one["email"]) for one in shown] == [("ada", None)]
    assert (await of_all.get("/user-groups/deciders/members")).json()[0]["email"] == "ada@example.com"

    await api.plane.access.take_role("ada", "viewer", tenant="default")
    assert (await admin.delete("/user-groups/deciders/members/ada")).status_code == 204


async def test_agents_tell_a_tenant_neither_budgets_nor_who_paused_them_and_why(api: Api) -> None:
    @api.plane.agent("costly", budget_cents=4711)
    async def costly(ctx: Context) -> None: ...

    job = await api.submit("costly")
    await api.plane.queues.pause(agent="costly", reason="acme owes us money", actor="user:eve")
    viewer, of_all = await api.client("viewer"), await api.client("viewer", tenant=None)

    for path in ("/agents", "/agents/costly", f"/jobs/{job}/why"):
        seen, whole = (await viewer.get(path)).text, (await of_all.get(path)).text
        assert "owes" in whole
        assert not [word for word in ("owes", "eve", "4711") if word in seen], path
    assert (await viewer.get("/agents/costly")).json()["control"]["paused"]
    assert "agent_paused" in (await viewer.get(f"/jobs/{job}/why")).text


async def test_the_gate_tells_everybody_why_but_not_who(api: Api) -> None:
    await api.plane.gate.close("we migrate", actor="user:eve")
    viewer, of_all = await api.client("viewer"), await api.client("viewer", tenant=None)

    assert (await viewer.get("/gate")).json()["reason"] == "we migrate"
    assert (await viewer.get("/gate")).json()["closed_by"] is None
    assert (await of_all.get("/gate")).json()["closed_by"] == "user:eve"


@pytest.mark.parametrize("others", [0, 1, 7])
async def test_the_beginning_of_an_id_finds_own_jobs_only_however_many_others_have(api: Api, others: int) -> None:
    await api.tenant("acme")
    mine = await api.submit()
    theirs = [await api.submit(tenant="acme") for _ in range(others)]
    viewer, other = await api.client("viewer"), await api.client("viewer", tenant="acme")

    assert (await viewer.get(f"/ids/job/{mine[:6]}")).json() == {"id": mine}
    assert (await viewer.get("/ids/job/ffffffff")).status_code == 404
    if others:
        hidden = await viewer.get(f"/ids/job/{theirs[0][:-1]}")
        assert hidden.status_code == 404
    if others > 1:
        assert (await other.get(f"/ids/job/{theirs[0][:6]}")).status_code == 422


@pytest.mark.parametrize("kind", ["job", "run", "group", "grant"])
async def test_others_ids_are_answered_as_ids_of_nothing(api: Api, kind: str) -> None:
    await api.tenant("acme")
    for _ in range(6):
        await api.submit(tenant="acme")
    viewer = await api.client("viewer")
    theirs = await api.submit(tenant="acme")

    found, nothing = await viewer.get(f"/ids/{kind}/{theirs[:8]}"), await viewer.get(f"/ids/{kind}/ffffffff")

    assert found.status_code == nothing.status_code == 404


@pytest.mark.parametrize("secret", ["password=hush-hush-hush", "redis://u:hush-hush-hush@db", "Basic hush-hush-hush"])
async def test_pages_show_no_secrets_of_errors(api: Api, secret: str) -> None:
    @api.plane.agent("leak")
    async def leak(ctx: Context) -> None:
        raise ValueError(f"cannot connect with {secret} to it")

    job = await api.plane.submit("leak", max_retries=0)
    await api.plane.run_worker(until_idle=True)
    client = await api.client("admin", tenant=None)
    app = create_dashboard(api.plane)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost", headers=client.headers) as browser:
        pages = {path: (await browser.get(path)).text for path in ("/", "/jobs", f"/jobs/{job.id}", "/audit")}
    assert all("cannot connect with" in page for page in pages.values())
    assert not [path for path, page in pages.items() if "hush-hush" in page]
