"""Who sees which page, and how one gets in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from httpx import ASGITransport, AsyncClient

from cortex_plane.dashboard.app import create_dashboard
from cortex_plane.dashboard.live import FirstLink
from cortex_plane.http.app import create_app
from cortex_plane.http.auth import COOKIE
from cortex_plane.http.routers import served_by
from cortex_plane.people.roles import Role, holds
from cortex_plane.testing import TestPlane
from tests.dashboard.conftest import Site

pytestmark = pytest.mark.anyio

VALUES = {
    "job_id": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60",
    "approval_id": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60",
    "reservation_id": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60",
    "key_id": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60",
    "schedule_id": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60",
    "name": "default",
    "digest": "0",
}
OPEN = {"/sign-in", "/first", "/static/{digest}/{name}"}
ENDLESS = {"/live"}


def pages(site: Site) -> list[tuple[str, str, str, Role | None, bool, bool]]:
    """Every route of the dashboard; those of the API have tests of their own."""
    others = {route.path for route in served_by(create_app(site.plane))}
    found = []
    for route in served_by(site.app):
        if route.path in others | ENDLESS:
            continue
        assert route.requirement is not None
        for method in route.methods:
            needed = route.requirement
            found.append((method, route.path, route.path.format(**VALUES), needed.role, needed.everywhere, needed.open))
    return found


async def test_a_stranger_is_led_to_the_door_and_back_again(site: Site) -> None:
    stranger = await site.stranger()

    seen = await stranger.get("/jobs?status=FAILED")

    assert (seen.status_code, seen.headers["location"]) == (303, "/sign-in?back=%2Fjobs%3Fstatus%3DFAILED")
    assert 'value="/jobs?status=FAILED"' in (await stranger.get(seen.headers["location"])).text


async def test_only_the_door_is_open_to_strangers(site: Site) -> None:
    stranger = await site.stranger()
    for method, path, address, _, _, is_open in pages(site):
        if is_open:
            assert path in OPEN
        else:
            answer = await stranger.request(method, address)
            assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, "/sign-in"), path


@pytest.mark.parametrize("role", Role)
async def test_each_role_sees_and_does_what_it_may_and_no_more(site: Site, role: Role) -> None:
    browser = await site.browser(role, tenant="default")
    for method, path, address, needed, everywhere, is_open in pages(site):
        if is_open or path == "/sign-out":
            continue
        answer = await browser.post(address) if method == "POST" else await browser.get(address)
        if needed is not None and (everywhere or not holds([role], needed)):
            assert answer.status_code == 403, path
        else:
            assert answer.status_code not in (401, 500, 503), (path, answer.text)
            assert needed is None or answer.status_code != 403, (path, answer.text)


async def test_one_signs_in_by_password_and_out(site: Site) -> None:
    await site.browser("viewer", name="bob")
    await site.plane.access.set_password("bob", "correct horse battery")
    browser = await site.stranger()

    wrong = await browser.post("/sign-in", data={"name": "bob", "password": "wrong horse battery"})
    right = await browser.post("/sign-in", data={"name": "bob", "password": "correct horse battery", "back": "/jobs"})

    assert wrong.status_code == 401
    assert "There is no such user, or the password is wrong." in wrong.text
    assert right.headers["location"] == "/jobs"
    assert "HttpOnly" in right.headers["set-cookie"]
    page = (await browser.get("/jobs")).text
    token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
    assert (await browser.post("/sign-out", data={"csrf_token": token})).headers["location"] == "/sign-in"
    assert (await browser.get("/jobs")).status_code == 303


async def test_the_first_link_lets_one_browser_in_once(plane: TestPlane) -> None:
    link = FirstLink(b"0" * 32)
    app = create_dashboard(plane, first_link=link)
    address = link.address("http://localhost")
    async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as browser:
        guessed = await browser.get("/first?token=guessed")
        entered = await browser.get(address)
        page = await browser.get("/")
        browser.cookies.clear()
        again = await browser.get(address)

    assert guessed.headers["location"].startswith("/sign-in")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert COOKIE in entered.headers["set-cookie"]
    assert page.status_code == 200
    assert again.headers["location"].startswith("/sign-in")


async def test_an_approver_comes_to_the_inbox_and_sees_no_jobs(site: Site) -> None:
    approver = await site.browser("approver", tenant="default")

    home, jobs, inbox = await approver.get("/"), await approver.get("/jobs"), await approver.get("/approvals")

    assert (home.status_code, home.headers["location"]) == (303, "/approvals")
    assert jobs.status_code == 403
    assert inbox.status_code == 200
    assert 'href="/jobs"' not in inbox.text


async def test_what_belongs_to_another_tenant_is_not_there(site: Site) -> None:
    from cortex_plane.ids import new_id
    from cortex_plane.people.tenants import add_tenant

    await add_tenant(site.plane.store, new_id, "other")
    job_id = await site.submit(word="nobody-elses")
    neighbour = await site.browser("admin", tenant="other", name="eve")

    assert (await neighbour.get(f"/jobs/{job_id}")).status_code == 404
    assert "nobody-elses" not in (await neighbour.get("/jobs")).text
    assert "job not found" in (await neighbour.get(f"/jobs/{job_id}")).text.lower()
    assert (await neighbour.get("/jobs?tenant=default")).status_code == 404
    assert job_id not in (await neighbour.get("/")).text


async def test_no_page_shows_or_changes_what_belongs_to_another_tenant(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    await site.plane.tenants.add("other")
    await site.plane.submit("release", {"version": "nobody-elses"})
    await site.plane.work()
    (request,) = await site.plane.approvals.list()
    schedule = await site.plane.schedules.add("nobody-elses", "agent:echo", "0 3 * * *")
    key = (await site.plane.access.add_key("nobody-elses", ["viewer"], tenant="default")).key
    theirs = {"job_id": request.job_id, "approval_id": request.id, "schedule_id": schedule.id, "key_id": key.id}
    neighbour = await site.browser("admin", "approver", tenant="other", name="eve")
    before = await _standing(site)

    tried = [
        await (neighbour.post(address, decision="approved") if method == "POST" else neighbour.get(address))
        for method, path, _, _, everywhere, _ in pages(site)
        if not everywhere and any(f"{{{name}}}" in path for name in theirs)
        for address in [path.format(**theirs)]
    ]
    many = [
        await neighbour.post("/approvals/requests/decide", decision="approved", ids=[request.id]),
        await neighbour.post("/jobs/cancel", ids=[request.job_id]),
    ]

    assert {answer.status_code for answer in tried} <= {303, 404, 422}
    told = [await neighbour.get(answer.headers["location"]) for answer in (*tried, *many) if answer.status_code == 303]
    assert not [answer.url.path for answer in (*tried, *told) if "nobody-elses" in answer.text]
    assert await _standing(site) == before
    assert len(tried) > 10
    record_property("tried", len(tried) + len(many))


async def _standing(site: Site) -> list[object]:
    plane = site.plane
    return [
        await plane.jobs.list(),
        await plane.approvals.list(),
        await plane.schedules.list(),
        await plane.access.keys(tenant="default"),
    ]


async def test_the_api_still_answers_with_problems(site: Site) -> None:
    stranger = await site.stranger()

    refused = await stranger.get("/api/v1/jobs")

    assert refused.status_code == 401
    assert refused.headers["content-type"] == "application/problem+json"
