"""Keys and cookies: what works, until when, and what a page elsewhere cannot do."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from cortex_plane import wiring
from cortex_plane.people.login import MOST_TRIES_FOR_A_NAME, WINDOW_SECONDS
from cortex_plane.people.passwords import Argon2Passwords
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing with little effort: what is tested is not how slow it is."""
    quick = Argon2Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr("cortex_plane.people.keys.passwords", lambda: quick)


async def ada(api: Api, *roles: str, tenant: str | None = "default") -> None:
    await api.plane.access.add_user("ada", email="ada@example.com")
    await api.plane.access.set_password("ada", PASSWORD)
    for role in roles:
        await api.plane.access.give_role("ada", role, tenant=tenant)


async def test_who_signs_in_has_a_cookie_that_scripts_cannot_read(api: Api) -> None:
    await ada(api, "operator")
    browser = await api.stranger()

    answer = await browser.post("/session", json={"name": "ada", "password": PASSWORD})

    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    me = (await browser.get("/me")).json()
    assert (me["name"], me["tenant"], me["roles"]) == ("user:ada", "default", ["operator"])
    assert me["csrf_token"] == answer.json()["csrf_token"]


async def test_a_change_by_cookie_needs_the_token_that_other_sites_cannot_know(api: Api) -> None:
    await ada(api, "operator")
    browser = await api.stranger()
    token = (await browser.post("/session", json={"name": "ada", "password": PASSWORD})).json()["csrf_token"]

    without = await browser.post("/jobs", json={"agent": "echo"})
    wrong = await browser.post("/jobs", json={"agent": "echo"}, headers={"X-CSRF-Token": "0" * 64})
    right = await browser.post("/jobs", json={"agent": "echo"}, headers={"X-CSRF-Token": token})

    assert [(one.status_code, one.json()["type"]) for one in (without, wrong)] == [(403, "/problems/csrf")] * 2
    assert (right.status_code, right.json()["created_by"]) == (201, "user:ada")


async def test_signing_out_ends_it_on_the_server_too(api: Api) -> None:
    await ada(api, "viewer")
    browser = await api.stranger()
    token = (await browser.post("/session", json={"name": "ada", "password": PASSWORD})).json()["csrf_token"]
    cookies = dict(browser.cookies)

    assert (await browser.delete("/session", headers={"X-CSRF-Token": token})).status_code == 204

    thief = await api.stranger()
    thief.cookies.update(cookies)
    assert (await thief.get("/me")).status_code == 401


async def test_a_session_ends_by_itself_and_by_a_new_password(api: Api) -> None:
    await ada(api, "viewer")
    browser = await api.stranger()
    await browser.post("/session", json={"name": "ada", "password": PASSWORD})
    assert (await browser.get("/me")).status_code == 200
    await api.plane.access.set_password("ada", PASSWORD + "!")
    assert (await browser.get("/me")).status_code == 401

    await browser.post("/session", json={"name": "ada", "password": PASSWORD + "!"})
    assert (await browser.get("/me")).status_code == 200
    await api.plane.clock.advance(hours=13)
    assert (await browser.get("/me")).status_code == 401


async def test_wrong_names_and_wrong_passwords_are_told_in_the_same_words(api: Api) -> None:
    await ada(api, "viewer")
    browser = await api.stranger()

    wrong = await browser.post("/session", json={"name": "ada", "password": "guess"})
    unknown = await browser.post("/session", json={"name": "bob", "password": "guess"})

    assert wrong.status_code == unknown.status_code == 401
    same = [{**one.json(), "request_id": ""} for one in (wrong, unknown)]
    assert same[0] == same[1]


async def test_guessing_is_stopped_for_a_while(api: Api) -> None:
    await ada(api, "viewer")
    browser = await api.stranger()
    for _ in range(MOST_TRIES_FOR_A_NAME):
        assert (await browser.post("/session", json={"name": "ada", "password": "guess"})).status_code == 401

    stopped = await browser.post("/session", json={"name": "ada", "password": PASSWORD})
    await api.plane.clock.advance(seconds=WINDOW_SECONDS + 1)
    later = await browser.post("/session", json={"name": "ada", "password": PASSWORD})

    assert (stopped.status_code, stopped.json()["type"]) == (429, "/problems/too-many-tries")
    assert int(stopped.headers["retry-after"]) > 0
    assert later.status_code == 200


async def test_a_user_without_roles_sees_nothing(api: Api) -> None:
    await ada(api)
    browser = await api.stranger()
    await browser.post("/session", json={"name": "ada", "password": PASSWORD})

    assert (await browser.get("/me")).json()["roles"] == []
    assert (await browser.get("/jobs")).status_code == 403


async def test_a_key_works_until_it_is_revoked_or_expires(api: Api) -> None:
    lasting, brief = await api.client("admin"), await api.client("viewer", ttl_seconds=60)
    assert (await brief.get("/jobs")).status_code == 200
    await api.plane.clock.advance(seconds=61)
    assert (await brief.get("/jobs")).status_code == 401

    made = (await lasting.post("/keys", json={"name": "import", "roles": ["submitter"]})).json()
    program = await api.stranger(Authorization=f"Bearer {made['secret']}")
    assert (await program.post("/jobs", json={"agent": "echo"})).status_code == 201
    revoked = await lasting.delete(f"/keys/{made['id']}")
    assert revoked.json()["revoked_at"] is not None
    assert (await program.get("/jobs")).status_code == 401


async def test_a_list_of_keys_shows_how_each_begins_and_when_it_was_used(api: Api) -> None:
    admin = await api.client("admin")
    made = (await admin.post("/keys", json={"name": "import", "roles": ["viewer"]})).json()

    answer = await admin.get("/keys")

    assert made["secret"] not in answer.text
    listed = {key["name"]: key for key in answer.json()}
    assert made["secret"].startswith(listed["import"]["prefix"])
    assert listed["import"]["last_used_at"] is None
    assert listed["test"]["last_used_at"] is not None
    assert "hash" not in listed["import"]


async def test_keys_of_all_tenants_are_seen_and_revoked_by_an_admin_of_all_only(api: Api) -> None:
    of_all, of_one = await api.client("admin", tenant=None), await api.client("admin")
    added = await api.plane.access.add_key("import", ["submitter"])

    seen = [key["id"] for key in (await of_all.get("/keys")).json()]
    refused = await of_one.delete(f"/keys/{added.key.id}")
    revoked = await of_all.delete(f"/keys/{added.key.id}")

    assert added.key.id in seen
    assert added.key.id not in (await of_one.get("/keys")).text
    assert refused.status_code == 404
    assert revoked.json()["revoked_at"] is not None


async def test_nothing_that_opens_a_door_is_stored_as_it_is(api: Api) -> None:
    await ada(api, "viewer")
    browser, admin = await api.stranger(), await api.client("admin")
    await browser.post("/session", json={"name": "ada", "password": PASSWORD})
    made = await admin.post("/keys", json={"name": "k", "roles": ["viewer"]}, headers={"Idempotency-Key": "one"})
    again = await admin.post("/keys", json={"name": "k", "roles": ["viewer"]}, headers={"Idempotency-Key": "one"})
    secrets = [made.json()["secret"], PASSWORD, next(iter(browser.cookies.values()))]

    store = api.plane.store
    rows = [
        *(await store.audit.list(made.json()["id"])),
        *(await store.keys.list()),
        await store.accounts.find("ada"),
        again.text,
    ]

    assert again.json()["secret"] is None
    assert again.json()["id"] == made.json()["id"]
    assert not [secret for secret in secrets if secret in repr(rows)]


def test_the_plane_hashes_passwords_by_argon2() -> None:
    assert wiring.passwords().hash(PASSWORD).startswith("$argon2id$")
    assert wiring.passwords().matches(wiring.passwords().hash(PASSWORD), PASSWORD)
    assert not wiring.passwords().matches(wiring.passwords().hash(PASSWORD), PASSWORD.upper())
    assert not wiring.passwords().matches("nonsense", PASSWORD)
