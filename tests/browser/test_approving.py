"""Deciding: with a change, with a reason; what others then see; and on a phone, by the link, without script."""

from __future__ import annotations

from secrets import token_bytes
from typing import Any

import pytest
from playwright.async_api import Page, expect

from cortex_plane import JobHandle, JobStatus
from cortex_plane.approvals.decisions import TOKEN_BYTES, mint
from cortex_plane.approvals.model import ApprovalRequest
from tests.browser.house import House

pytestmark = pytest.mark.anyio

PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 700}, "is_mobile": True, "has_touch": True}


async def asked(house: House, version: str = "1.4.0") -> tuple[JobHandle[str], ApprovalRequest]:
    """A job that waits for a decision."""
    house.go["build"].set()
    job = await house.submit("release", version=version)
    await house.plane.run_worker(until_idle=True)
    [request] = [one for one in await house.plane.approvals.list() if one.job_id == job.id]
    return job, request


async def link_for(house: House, request: ApprovalRequest, name: str) -> str:
    """As a message to them would hold it."""
    token = mint(token_bytes(TOKEN_BYTES))
    person = await house.plane.people.get(name)
    linked = await house.plane.people.link(name, "email", f"{name}@example.com")
    store = house.plane.store
    assert await store.approvals.put_token(request.id, person.id, "email", linked.channel_user_id, token.hash)
    return f"/approvals/{token.plaintext}"


async def note_on(page: Page) -> str:
    note = page.get_by_test_id("note")
    await expect(note).to_be_visible()
    return await note.inner_text()


async def test_one_approves_with_a_change_and_the_other_sees_who_did(either_house: House) -> None:
    house = either_house
    first, second = await house.page("approver", "approver"), await house.page("operator", "admin", "approver")
    job, _ = await asked(house)
    await first.goto("/")
    await second.goto("/approvals")
    await expect(second.get_by_role("button", name="Approve", exact=True)).to_be_visible()

    await first.get_by_role("link", name="Change the details first").click()
    details = first.get_by_label("The details")
    await details.fill((await details.input_value()).replace('"replicas": 3', '"replicas": 5'))
    await first.get_by_label("Reason").fill("more are needed")
    await first.get_by_role("button", name="Approve").click()
    assert await note_on(first) == "You approved it."
    await expect(first.get_by_text("Nothing waits for you")).to_be_visible()

    await expect(second.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    await second.get_by_role("link", name="Also decided").click()
    card = second.get_by_role("region", name="Deploy 1.4.0")
    await expect(card).to_contain_text("Approved")
    await expect(card).to_contain_text("approver: more are needed")
    await expect(card).to_contain_text("5")
    house.work()
    assert await job.result(timeout=20) == "5 replicas of shop:1.4.0"


async def test_one_denies_with_a_reason_and_the_job_says_so(house: House) -> None:
    page = await house.page("operator", "admin", "approver")
    job, _ = await asked(house)
    await page.goto(f"/jobs/{job.id}")

    await page.get_by_role("link", name="Deploy 1.4.0").first.click()
    await page.get_by_label("Reason").fill("not on a Friday")
    await page.get_by_role("button", name="Deny").click()
    assert await note_on(page) == "You denied it."
    await page.goto(f"/jobs/{job.id}")

    assert await job.status() is JobStatus.FAILED
    await expect(page.get_by_label("Error")).to_contain_text("not on a Friday")


async def test_a_change_that_is_not_allowed_is_refused_in_words_and_decides_nothing(house: House) -> None:
    page = await house.page("approver", "approver")
    job, request = await asked(house)
    await page.goto(f"/approvals/requests/{request.id}")

    await page.get_by_label("The details").fill('{"image": "evil", "replicas": 3}')
    await page.get_by_role("button", name="Approve").click()

    assert "details.image cannot be changed" in await note_on(page)
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_several_are_decided_at_once_after_being_asked_back(house: House) -> None:
    page = await house.page("approver", "approver")
    jobs = [(await asked(house, version))[0] for version in ("1", "2", "3")]
    await page.goto("/approvals")
    page.on("dialog", lambda dialog: dialog.accept())

    await page.get_by_label("Choose Deploy 1").check()
    await page.get_by_label("Choose Deploy 3").check()
    await expect(page.get_by_text("2 chosen")).to_be_visible()
    await page.get_by_role("button", name="Deny chosen").click()

    assert await note_on(page) == "Decided 2."
    assert [await job.status() for job in jobs] == [JobStatus.FAILED, JobStatus.WAITING_FOR_APPROVAL, JobStatus.FAILED]


@pytest.mark.parametrize(("button", "status"), [("Approve", JobStatus.RUNNING), ("Deny", JobStatus.FAILED)])
async def test_on_a_phone_without_script_the_link_shows_asks_and_decides(
    either_house: House, button: str, status: JobStatus
) -> None:
    house = either_house
    await house.person("approver", "approver")
    job, request = await asked(house)
    link = await link_for(house, request, "approver")
    page = await house.page(**PHONE, java_script_enabled=False)

    await page.goto(link)
    await expect(page.get_by_role("heading", name="Deploy 1.4.0")).to_be_visible()
    for name in ("Approve", "Deny"):
        box = await page.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["x"] + box["width"] <= 375
    await page.get_by_label("Reason").fill("from the train")
    await page.get_by_role("button", name=button).tap()

    await expect(page.get_by_role("status").first).to_contain_text(
        f"{'Approved' if button == 'Approve' else 'Denied'} by approver"
    )
    await expect(page.get_by_role("button")).to_have_count(0)
    assert await job.status() is status
    [vote] = await house.plane.approvals.votes(request.id)
    assert (vote.door, vote.reason) == ("page", "from the train")
