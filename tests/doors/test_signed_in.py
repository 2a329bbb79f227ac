"""Approvals for those who are signed in: their inbox, what they may see, deciding one or many, reminding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import AsyncClient

from cortex_plane import JobStatus
from cortex_plane.approvals.model import Notification
from cortex_plane.http.auth import COOKIE, csrf_token
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.people.tenants import add_tenant
from tests.doors.house import House, Person

pytestmark = pytest.mark.anyio

V1 = "/api/v1"


def by(person: Person) -> dict[str, str]:
    return {"Authorization": f"Bearer {person.key}"}


async def ids(client: AsyncClient, address: str, headers: dict[str, str]) -> list[str]:
    answer = await client.get(address, headers=headers)
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["items"]]


async def key(house: House, *roles: str, **options: Any) -> dict[str, str]:
    wanted = {"tenant": "default", **options}
    for role in roles if "user" in options else ():
        await house.plane.access.give_role(options["user"], role, tenant=wanted["tenant"])
    made = await house.plane.access.add_key("test", roles, **wanted)
    return {"Authorization": f"Bearer {made.secret}"}


async def test_the_inbox_has_what_waits_for_oneself(house: House, alice: Person, bob: Person) -> None:
    _, mine = await house.asked(alice)
    _, theirs = await house.asked(bob)
    _, everybodys = await house.asked()

    assert await ids(house.client, f"{V1}/inbox", by(alice)) == [everybodys.id, mine.id]
    assert await ids(house.client, f"{V1}/inbox", by(bob)) == [everybodys.id, theirs.id]
    await house.client.post(f"{V1}/approvals/{mine.id}/approve", headers=by(alice))
    assert await ids(house.client, f"{V1}/inbox", by(alice)) == [everybodys.id]


async def test_lists_come_a_page_at_a_time(house: House, alice: Person) -> None:
    expected = [(await house.asked(alice))[1].id for _ in range(5)][::-1]
    for address in (f"{V1}/inbox", f"{V1}/approvals"):
        found: list[str] = []
        cursor = ""
        while True:
            page = (await house.client.get(f"{address}?limit=2{cursor}", headers=by(alice))).json()
            found += [one["id"] for one in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert found == expected


async def test_the_whole_list_is_of_one_s_own_tenant_and_has_what_is_closed_if_asked_for(house: House, alice: Person) -> None:
    job, first = await house.asked(alice)
    _, second = await house.asked(alice)
    await house.plane.approvals.deny(second.id, by="alice")
    await add_tenant(house.store, new_id, "other")
    neighbour = await key(house, "admin", tenant="other")
    viewer = await key(house, "viewer")

    assert await ids(house.client, f"{V1}/approvals", viewer) == [first.id]
    assert await ids(house.client, f"{V1}/approvals?open_only=false", viewer) == [second.id, first.id]
    assert await ids(house.client, f"{V1}/approvals?job={job.id}", viewer) == [first.id]
    assert await ids(house.client, f"{V1}/approvals?open_only=false", neighbour) == []


async def test_a_request_is_shown_without_addresses_and_without_anything_secret(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    token = await house.token(request, alice)

    shown = await house.client.get(f"{V1}/approvals/{request.id}", headers=by(alice))

    assert (shown.json()["state"], shown.json()["details"]) == ("open", {"image": "app:1.4.0", "replicas": 3})
    for secret in (token.hash, token.plaintext, alice.chats["telegram"], "notifications", "token"):
        assert secret not in shown.text


async def test_whoever_sees_a_request_sees_who_was_told_and_what_failed_without_addresses(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    sent = Notification(alice.user.id, "telegram", alice.chats["telegram"], "7", where={"chat_id": 1})
    await house.store.approvals.record_notification(request.id, sent)

    told = await house.client.get(f"{V1}/approvals/{request.id}/notifications", headers=by(alice))

    found = {one["channel"]: one for one in told.json()}
    assert (found["telegram"]["to"], found["telegram"]["message_id"], found["telegram"]["error"]) == ("Alice", "7", None)
    assert found["telegram"]["sent_at"] is not None
    assert (found["discord"]["to"], found["discord"]["sent_at"]) == ("Alice", None)
    assert "CORTEX_DISCORD_BOT_TOKEN" in found["discord"]["error"]
    assert not any(address in told.text for address in alice.chats.values())


async def test_what_one_may_not_see_is_not_there(house: House, alice: Person, bob: Person) -> None:
    """Neither by its id nor by deciding it: bob approves in the tenant, but is not asked here."""
    job, request = await house.asked(alice)
    await add_tenant(house.store, new_id, "other")
    strangers = [
        await key(house, "approver", user="bob"),
        await key(house, "admin", "approver", tenant="other", user="bob"),
        await key(house, "admin", "approver", tenant="other", user="alice"),
    ]

    for headers in strangers:
        answers = [
            await house.client.get(f"{V1}/approvals/{request.id}", headers=headers),
            await house.client.get(f"{V1}/approvals/{request.id}/votes", headers=headers),
            await house.client.post(f"{V1}/approvals/{request.id}/approve", headers=headers),
            await house.client.post(f"{V1}/approvals/{request.id}/deny", headers=headers),
        ]
        assert [answer.status_code for answer in answers] == [404] * 4
    many = await house.client.post(f"{V1}/bulk/approvals/approve", json={"ids": [request.id]}, headers=strangers[0])
    assert many.json()["refused"][0]["problem"]["type"] == "/problems/approval-not-found"
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_who_sees_it_and_may_not_decide_is_told_why(house: House, alice: Person, bob: Person) -> None:
    _, request = await house.asked(alice)

    answer = await house.client.post(f"{V1}/approvals/{request.id}/approve", headers=by(bob))

    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/may-not-decide")
    assert answer.json()["detail"] == "You are not an approver of this request."


async def test_a_key_decides_for_the_person_whom_it_belongs_to_and_only_with_the_role_for_it(house: House, alice: Person) -> None:
    job, request = await house.asked(alice)
    nobodys, viewing = await key(house, "admin", "approver"), await key(house, "admin", user="alice")

    answers = [await house.client.post(f"{V1}/approvals/{request.id}/approve", headers=headers) for headers in (nobodys, viewing)]

    assert [(one.status_code, one.json()["type"]) for one in answers] == [
        (403, "/problems/denied"),
        (403, "/problems/role-missing"),
    ]
    assert "cortex keys add NAME --user NAME" in answers[0].json()["detail"]
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_whoever_is_asked_by_name_needs_no_role_to_decide_with_a_cookie(house: House) -> None:
    grace = await house.person("grace")
    job, request = await house.asked(grace)
    await house.plane.access.set_password("grace", "correct horse battery")
    signed = await house.client.post(f"{V1}/session", json={"name": "grace", "password": "correct horse battery"})
    token = {"X-CSRF-Token": signed.json()["csrf_token"]}

    assert await ids(house.client, f"{V1}/inbox", {}) == [request.id]
    without = await house.client.post(f"{V1}/approvals/{request.id}/approve")
    done = await house.client.post(f"{V1}/approvals/{request.id}/approve", json={"reason": "fine"}, headers=token)

    assert (without.status_code, done.status_code) == (403, 200)
    assert (done.json()["by"], done.json()["job_id"]) == ("Grace", job.id)
    [vote] = await house.plane.approvals.votes(request.id)
    assert (vote.reason, vote.door) == ("fine", "api")


@pytest.mark.parametrize("door", ["api", "dashboard", "own grant", "any grant", "service key", "schedule", "schedule page"])
async def test_whoever_submitted_a_job_through_a_door_does_not_approve_it_where_that_is_refused(
    house: House, bob: Person, door: str
) -> None:
    alice = await house.person("alice", "approver", "submitter")
    gate = {"no_self_approval": True, "approvers": ["alice", "bob"]}
    job_id = await submitted(house, alice, door, {"gate": gate})
    await house.plane.work()
    [request] = await house.store.approvals.list(job_id=job_id)
    mine = f"{V1}/approvals/{request.id}/approve"

    assert (await house.client.post(mine, headers=by(alice))).status_code == 403
    assert await ids(house.client, f"{V1}/inbox", by(alice)) == []
    assert (await house.client.post(mine, headers=by(bob))).status_code == 200


async def submitted(house: House, person: Person, door: str, payload: dict[str, Any]) -> JobId:
    if door == "api":
        key_of_theirs = await key(house, "submitter", user=person.name)
        answer = await house.client.post(f"{V1}/jobs", json={"agent": "release-bot", "payload": payload}, headers=key_of_theirs)
        return JobId(answer.json()["id"])
    if door == "dashboard":
        async with await house.visitor("127.0.0.1") as browser:
            browser.cookies.set(COOKIE, person.cookie)
            form = {"csrf_token": csrf_token(person.cookie), "agent": "release-bot", "payload": json.dumps(payload)}
            answer = await browser.post("/jobs", data=form)
        return JobId(answer.headers["location"].rsplit("/", 1)[1])
    if door == "service key":
        await house.plane.access.give_role(person.name, "admin")
        await house.plane.people.add("ci", owner=person.name)
        await house.plane.access.give_role("ci", "submitter", tenant="default")
        wish: dict[str, Any] = {"name": "ci", "roles": ["submitter"], "user": "ci"}
        secret = (await house.client.post(f"{V1}/keys", json=wish, headers=await key(house, "admin", user=person.name))).json()[
            "secret"
        ]
        headers = {"Authorization": f"Bearer {secret}"}
        answer = await house.client.post(f"{V1}/jobs", json={"agent": "release-bot", "payload": payload}, headers=headers)
        return JobId(answer.json()["id"])
    if door.startswith("schedule"):
        schedule = await house.plane.schedules.add("yearly", "agent:release-bot", "0 0 1 1 *", input={"gate": {}})
        headers = await key(house, "operator", user=person.name)
        address = f"{V1}/schedules/{schedule.id}"
        if door == "schedule":
            assert (await house.client.patch(address, json={"input": payload}, headers=headers)).status_code == 200
            assert (await house.client.post(f"{address}/trigger", headers=await key(house, "operator"))).status_code == 201
        else:
            await house.plane.schedules.change("yearly", input=payload, actor="user:carl")
            async with await house.visitor("127.0.0.1") as browser:
                browser.cookies.set(COOKIE, person.cookie)
                form = {"csrf_token": csrf_token(person.cookie)}
                assert (await browser.post(f"/schedules/{schedule.id}/trigger", data=form)).status_code == 303
        await house.plane.work()
        [job] = await house.plane.jobs.list(agent="release-bot")
        return job.id
    own = door == "own grant"
    grant = await house.plane.grants.add(["agent:run:release-bot"], user=person.name if own else None)
    headers = {**(await key(house, "submitter" if own else "operator", user=person.name)), "Idempotency-Key": "k"}
    body = {"grant": grant.id, "input": payload}
    answer = await house.client.post(f"{V1}/graphs/agent:release-bot/runs", json=body, headers=headers)
    return JobId(answer.json()["run_id"])


async def test_many_are_decided_at_once_and_one_that_cannot_be_does_not_keep_the_others(house: House, alice: Person) -> None:
    requests = [(await house.asked(alice))[1].id for _ in range(4)]
    await house.plane.approvals.deny(requests[1], by="alice")
    unknown = "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60"
    body = {"ids": [*requests, requests[0], unknown], "reason": "all of them"}

    answer = (await house.client.post(f"{V1}/bulk/approvals/approve", json=body, headers=by(alice))).json()

    assert answer["done"] == [requests[0], requests[2], requests[3]]
    assert {one["id"]: one["problem"]["status"] for one in answer["refused"]} == {requests[1]: 409, unknown: 404}
    assert answer["refused"][0]["problem"]["by"] == "Alice"


async def test_edited_details_are_checked_and_kept(house: House, alice: Person) -> None:
    _, request = await house.asked(alice, editable=["replicas"])
    address = f"{V1}/approvals/{request.id}/approve"

    wrong = await house.client.post(address, json={"details": {"image": "evil", "replicas": 3}}, headers=by(alice))
    right = await house.client.post(address, json={"details": {"image": "app:1.4.0", "replicas": 1}}, headers=by(alice))

    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "details.image")
    assert right.status_code == 200
    assert (await house.plane.approvals.get(request.id)).details == {"image": "app:1.4.0", "replicas": 1}


async def test_whoever_submits_may_have_people_asked_anew(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    submitter, viewer = await key(house, "submitter"), await key(house, "viewer")

    refused = await house.client.post(f"{V1}/approvals/{request.id}/remind", headers=viewer)
    done = await house.client.post(f"{V1}/approvals/{request.id}/remind", headers=submitter)
    await house.plane.approvals.approve(request.id, by="alice")
    closed = await house.client.post(f"{V1}/approvals/{request.id}/remind", headers=submitter)

    assert (refused.status_code, done.status_code, closed.status_code) == (403, 200, 409)
    assert done.json()["reminders"] == 1
    assert closed.json()["type"] == "/problems/approval-closed"
