"""Users, their roles, groups of them, and how long jobs are kept: what admins do."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery staple"


@pytest.fixture
async def root(api: Api) -> AsyncClient:
    return await api.client("admin", tenant=None)


async def signed_in(api: Api, name: str) -> AsyncClient:
    client = await api.stranger()
    answer = await client.post("/session", json={"name": name, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    client.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
    return client


async def test_a_person_is_added_given_a_role_and_a_password_and_gets_in(api: Api, root: AsyncClient) -> None:
    added = await root.post("/users", json={"name": "ada", "display_name": "Ada", "email": "ada@example.com"})
    given = await root.post("/users/ada/give-role", json={"role": "operator"})
    password = await root.put("/users/ada/password", json={"password": PASSWORD})

    assert (added.status_code, added.json()["given"]) == (201, [])
    assert [(one["role"], one["tenant"]) for one in given.json()["given"]] == [("operator", "default")]
    assert password.status_code == 204
    ada = await signed_in(api, "ada")
    assert (await ada.get("/me")).json()["roles"] == ["operator"]
    assert (await root.get("/users/ada")).json() == given.json()
    assert [user["name"] for user in (await root.get("/users")).json()["items"]] == ["ada"]


async def test_a_role_that_is_taken_and_a_user_who_is_disabled_may_do_nothing_more(api: Api, root: AsyncClient) -> None:
    await root.post("/users", json={"name": "ada"})
    await root.put("/users/ada/password", json={"password": PASSWORD})
    await root.post("/users/ada/give-role", json={"role": "viewer", "everywhere": True})
    ada = await signed_in(api, "ada")
    assert (await ada.get("/jobs")).status_code == 200

    disabled = await root.post("/users/ada/disable", json={"reason": "on leave"})
    while_disabled = await ada.get("/jobs")
    await root.post("/users/ada/enable", json={})
    when_enabled = await ada.get("/jobs")
    again = await signed_in(api, "ada")
    await root.post("/users/ada/take-role", json={"role": "viewer", "everywhere": True})

    assert disabled.json()["disabled_at"] is not None
    assert while_disabled.status_code == 401
    assert when_enabled.status_code == 401, "what was ended does not come back"
    assert (await again.get("/jobs")).status_code == 403


async def test_an_admin_of_one_tenant_gives_roles_there_and_is_told_nothing_of_others(api: Api, root: AsyncClient) -> None:
    await api.tenant("other")
    await root.post("/users", json={"name": "ada", "email": "ada@example.com"})
    await root.post("/users/ada/give-role", json={"role": "admin"})
    await root.post("/users/ada/give-role", json={"role": "approver"}, params={"tenant": "other"})
    admin = await api.client("admin", tenant="other")

    given = await admin.post("/users/ada/give-role", json={"role": "viewer"})
    too_much = await admin.post("/users/ada/give-role", json={"role": "admin", "everywhere": True})

    assert [(one["role"], one["tenant"]) for one in given.json()["given"]] == [("approver", "other"), ("viewer", "other")]
    assert given.json()["email"] is None
    assert (too_much.status_code, too_much.json()["type"]) == (403, "/problems/role-missing")
    assert (await admin.get("/users")).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "a/b"}, 422),
        ({"name": "@ada"}, 422),
        ({"name": "ada", "email": "nowhere"}, 422),
        ({"name": ""}, 422),
        ({"name": "ada", "role": "admin"}, 422),
    ],
)
async def test_a_wrong_person_is_refused(root: AsyncClient, body: dict[str, str], status: int) -> None:
    assert (await root.post("/users", json=body)).status_code == status


async def test_a_name_is_given_once_and_who_is_not_there_is_told(root: AsyncClient) -> None:
    await root.post("/users", json={"name": "ada"})

    assert (await root.post("/users", json={"name": "ada"})).json()["type"] == "/problems/user-exists"
    assert (await root.get("/users/bob")).json()["type"] == "/problems/user-not-found"
    assert (await root.post("/users/bob/disable", json={})).json()["type"] == "/problems/user-not-found"


async def test_users_come_in_pages(root: AsyncClient) -> None:
    for name in ("ada", "bob", "cäcilie", "dan"):
        await root.post("/users", json={"name": name})

    first = (await root.get("/users", params={"limit": 3})).json()
    rest = (await root.get("/users", params={"limit": 3, "cursor": first["next"]})).json()

    assert [user["name"] for page in (first, rest) for user in page["items"]] == ["ada", "bob", "cäcilie", "dan"]
    assert rest["next"] is None


async def test_people_are_put_into_groups_of_a_tenant(api: Api, root: AsyncClient, admin: AsyncClient) -> None:
    await api.tenant("other")
    await root.post("/users", json={"name": "ada"})
    await root.post("/users/ada/give-role", json={"role": "approver"})
    added = await admin.post("/user-groups", json={"name": "release managers"})
    again = await admin.post("/user-groups", json={"name": "release managers"})
    joined = await admin.put("/user-groups/release managers/members/ada")

    assert (added.status_code, again.json()["type"]) == (201, "/problems/user-group-exists")
    assert joined.status_code == 204
    assert [user["name"] for user in (await admin.get("/user-groups/release managers/members")).json()] == ["ada"]
    assert [group["name"] for group in (await admin.get("/user-groups")).json()] == ["release managers"]
    neighbour = await api.client("admin", tenant="other")
    assert (await neighbour.get("/user-groups")).json() == []
    assert (await neighbour.get("/user-groups/release managers")).json()["type"] == "/problems/user-group-not-found"
    await admin.delete("/user-groups/release managers/members/ada")
    assert (await admin.get("/user-groups/release managers/members")).json() == []
    assert (await admin.delete("/user-groups/release managers")).status_code == 204
    assert (await admin.get("/user-groups")).json() == []


async def test_rules_say_how_long_jobs_are_kept(root: AsyncClient) -> None:
    added = await root.post("/retention", json={"keep_seconds": 60, "for_agent": "echo", "for_status": "FAILED"})
    again = await root.post("/retention", json={"keep_seconds": 90, "for_agent": "echo", "for_status": "FAILED"})
    unknown = await root.post("/retention", json={"keep_seconds": 90, "for_agent": "nobody"})
    listed = await root.get("/retention")
    removed = await root.delete(f"/retention/{added.json()['id']}")
    gone = await root.delete(f"/retention/{added.json()['id']}")

    assert (added.status_code, again.json()["type"]) == (201, "/problems/rule-exists")
    assert unknown.json()["type"] == "/problems/agent-not-found"
    assert listed.json() == [added.json()] == [removed.json()]
    assert gone.json()["type"] == "/problems/rule-not-found"


async def test_a_rule_may_be_about_the_audit_log(root: AsyncClient) -> None:
    added = await root.post("/retention", json={"keep_seconds": 86_400, "record": "audit_log"})
    narrower = await root.post("/retention", json={"keep_seconds": 86_400, "record": "audit_log", "for_agent": "echo"})
    report = await root.post("/audit/verify")

    assert (added.status_code, added.json()["record"]) == (201, "audit_log")
    assert narrower.status_code == 422
    assert report.json()["pruned"] is None
