"""The page behind the link: it shows, it asks, and only its buttons decide."""

from __future__ import annotations

import re
from html import unescape

import pytest
from httpx import Response

from cortex_plane import JobStatus
from cortex_plane.approvals.decisions import Decided
from cortex_plane.http.auth import COOKIE
from tests.contract.support import Raw
from tests.doors.house import House, Person
from tests.doors.test_every_door import state

pytestmark = pytest.mark.anyio

NASTY = "<script>alert(1)</script> \u202egnp.exe"


def words(answer: Response) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", answer.text))


async def test_looking_shows_what_is_asked_and_changes_nothing(house: House, alice: Person, raw: Raw) -> None:
    job, request = await house.asked(alice)
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"
    before = await state(raw)

    answers = [await house.client.get(address) for _ in range(3)]
    answers.append(await house.client.get(address + "?utm_source=mail"))
    await house.client.head(address)
    await house.client.get(f"/api/approvals/{(await house.token(request, alice)).plaintext}/approve")

    assert {answer.status_code for answer in answers} == {200}
    assert await state(raw) == before
    text = words(answers[0])
    for shown in ("Deploy 1.4.0 to production", "app:1.4.0", "replicas", "release-bot", job.id, "UTC", "left", "Approve", "Deny"):
        assert shown in text, shown
    assert f'datetime="{request.expires_at:%Y-%m-%dT%H:%M:%SZ}"' in answers[0].text
    assert "Change the details" not in text


async def test_the_page_keeps_its_token_to_itself_and_needs_no_script(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    token = (await house.token(request, alice)).plaintext

    answer = await house.client.get(f"/approvals/{token}")
    style = await house.client.get("/approval-page.css")

    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "noindex" in answer.headers["x-robots-tag"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert "set-cookie" not in answer.headers
    assert token not in answer.text
    assert "<script" not in answer.text
    assert "style=" not in answer.text
    assert set(re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)) == {"/approval-page.css"}
    assert 'name="viewport"' in answer.text
    assert "prefers-color-scheme" in style.text or "light-dark" in style.text
    assert "url(" not in style.text


async def test_pressing_a_button_decides_and_says_so(house: House, alice: Person) -> None:
    job, request = await house.asked(alice)
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"

    done = await house.client.post(address, data={"decision": "approved", "reason": "looks good"})
    again = await house.client.post(address, data={"decision": "denied", "reason": ""})
    looked = await house.client.get(address)

    assert (done.status_code, again.status_code, looked.status_code) == (200, 409, 200)
    assert "✅ Approved by Alice" in words(done)
    assert "looks good" in words(done)
    assert "It was already approved by Alice" in words(again)
    assert "✅ Approved by Alice" in words(looked)
    for page in (done, again, looked):
        assert "<form" not in page.text
    await house.plane.work()
    assert await job.status() is JobStatus.COMPLETED
    [vote] = await house.plane.approvals.votes(request.id)
    assert (vote.door, vote.reason) == ("page", "looks good")


@pytest.mark.parametrize("body", [b"", b"decision=", b"decision=maybe", b"\xff\xfe", b"a&" * 50, b'{"decision": "approved"}'])
async def test_what_is_no_decision_decides_nothing(house: House, alice: Person, body: bytes) -> None:
    job, request = await house.asked(alice)
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"

    answer = await house.client.post(address, content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})

    assert answer.status_code == 422
    assert "<form" in answer.text
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_details_can_be_changed_where_the_gate_allows_it(house: House, alice: Person) -> None:
    job, request = await house.asked(alice, editable=["replicas"])
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"
    page = await house.client.get(address)
    assert "You may change: replicas." in words(page)

    refused = await house.client.post(address, data={"decision": "approved", "reason": "less", "details": '{"image": "evil"}'})
    broken = await house.client.post(address, data={"decision": "approved", "details": "{"})
    good = '{"image": "app:1.4.0",\r\n "replicas": 1}'
    done = await house.client.post(address, data={"decision": "approved", "details": good})

    assert (refused.status_code, broken.status_code, done.status_code) == (422, 422, 200)
    assert "details.image cannot be changed" in words(refused)
    assert "evil" in words(refused)
    assert "less" in words(refused)
    assert "not JSON: line 1" in words(broken)
    assert (await house.plane.approvals.get(request.id)).edited_details == {"image": "app:1.4.0", "replicas": 1}
    assert await job.status() is JobStatus.RUNNING


async def test_details_that_were_left_alone_count_as_shown(house: House, alice: Person) -> None:
    details = {"text": "a\u202eb\ttab\nline", "many": [1, {"x": 1.5}], "none": None}
    _, request = await house.asked(alice, editable=True, details=details)
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"
    page = await house.client.get(address)
    textarea = re.search(r'name="details"[^>]*>(.*?)</textarea>', page.text, re.DOTALL)
    assert textarea is not None

    as_sent = unescape(textarea[1]).replace("\n", "\r\n")
    await house.client.post(address, data={"decision": "approved", "details": as_sent})

    assert (await house.plane.approvals.get(request.id)).edited_details is None


async def test_a_denial_does_not_stumble_over_what_stands_in_the_details(house: House, alice: Person) -> None:
    job, request = await house.asked(alice, editable=True)
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"

    answer = await house.client.post(address, data={"decision": "denied", "details": "{"})

    assert answer.status_code == 200
    assert await job.status() is JobStatus.FAILED


async def test_what_strangers_wrote_is_shown_and_not_obeyed(house: House, alice: Person) -> None:
    _, request = await house.asked(alice, details={NASTY: NASTY, "list": [NASTY]})

    page = await house.client.get(f"/approvals/{(await house.token(request, alice)).plaintext}")

    assert "<script" not in page.text
    assert "\u202e" not in page.text
    assert "&lt;script&gt;" in page.text


async def test_late_clicks_find_a_friendly_page(house: House, alice: Person, bob: Person) -> None:
    late_job, late = await house.asked(alice, ttl=60)
    gone_job, gone = await house.asked(alice)
    addresses = [f"/approvals/{(await house.token(request, alice)).plaintext}" for request in (late, gone)]
    await house.plane.clock.advance(seconds=61)
    await gone_job.cancel()

    expired, cancelled = [await house.client.get(address) for address in addresses]
    unknown = await house.client.get("/approvals/cortex_apr_1_nothing")

    assert "Expired without a decision" in words(expired)
    assert "Cancelled" in words(cancelled)
    assert (unknown.status_code, "does not work" in words(unknown)) == (404, True)
    for page in (expired, cancelled, unknown):
        assert "<form" not in page.text
        assert page.headers["content-type"].startswith("text/html")
    assert await late_job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_of_a_quorum_the_page_says_how_many_are_missing(house: House, alice: Person, bob: Person) -> None:
    _, request = await house.asked(alice, bob, quorum=2)
    address = f"/approvals/{(await house.token(request, alice)).plaintext}"
    assert "0 of 2 approvals so far" in words(await house.client.get(address))

    voted = await house.client.post(address, data={"decision": "approved"})
    looked = await house.client.get(address)

    assert (voted.status_code, looked.status_code) == (202, 200)
    assert "1 of 2 so far" in words(voted)
    assert "Your approval counts" in words(looked)
    assert "<form" not in looked.text


async def test_whoever_is_asked_again_is_told_why(house: House, alice: Person) -> None:
    job, first = await house.asked(alice)
    assert isinstance(await house.store.approvals.decide(first.id, alice.user.id, "approved", door="test"), Decided)
    house.summary = "Ship 1.4.0"
    await house.plane.work()
    [again] = await house.store.approvals.list(job_id=job.id)

    page = words(await house.client.get(f"/approvals/{(await house.token(again, alice)).plaintext}"))
    listed = await house.client.get("/api/v1/inbox", headers={"authorization": f"Bearer {alice.key}"})
    dashboard = await house.client.get(f"/approvals/requests/{again.id}", headers={"cookie": f"{COOKIE}={alice.cookie}"})

    why = "the agent's code has changed the wording of this request"
    assert why in page
    [shown] = listed.json()["items"]
    assert shown["supersedes"] == first.id
    assert why in shown["why_again"]
    assert why in words(dashboard)
    assert first.id in dashboard.text
