"""Steering: order by drag and by keyboard, pauses, the gate, many jobs at once; what is asked for is then in the database."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from cortex_plane import JobStatus
from cortex_plane.metrics.service import look_into_queue
from cortex_plane.queues.model import Scope
from tests.browser.house import House

pytestmark = pytest.mark.anyio


async def words_in_queue(house: House) -> list[str]:
    """In the order in which they would be claimed."""
    store = house.plane.store
    jobs = [await house.plane.jobs.get(entry.job_id) for entry in await look_into_queue(store, "words", 10)]
    return [job.payload["word"] for job in jobs]


async def queue_page(house: House, *words: str) -> Page:
    for word in words:
        await house.submit("echo", word=word)
    page = await house.page("operator", "operator")
    await page.goto("/queues/words")
    await expect(page.get_by_test_id("order").get_by_role("listitem")).to_have_count(len(words))
    return page


async def test_jobs_are_put_into_another_order_by_dragging(either_house: House) -> None:
    house = either_house
    page = await queue_page(house, "one", "two", "three", "four")
    items = page.get_by_test_id("order").get_by_role("listitem")

    await items.nth(3).drag_to(items.nth(0), target_position={"x": 200, "y": 4})
    await expect(page.get_by_test_id("note")).to_have_text("Moved.")
    assert await words_in_queue(house) == ["four", "one", "two", "three"]

    last = await items.nth(3).bounding_box()
    assert last is not None
    await items.nth(0).drag_to(items.nth(3), target_position={"x": 200, "y": last["height"] - 4})
    await expect(items.nth(3)).to_have_attribute("data-job", await _id_of(house, "four"))
    assert await words_in_queue(house) == ["one", "two", "three", "four"]


async def _id_of(house: House, word: str) -> str:
    jobs = [await house.plane.jobs.get(job.id) for job in await house.plane.jobs.list()]
    return next(job.id for job in jobs if job.payload["word"] == word)


async def test_jobs_are_put_into_another_order_by_keyboard(house: House) -> None:
    page = await queue_page(house, "one", "two", "three")

    await page.get_by_role("button", name="Move job 3 up").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("note")).to_have_text("Moved.")
    assert await words_in_queue(house) == ["one", "three", "two"]

    await page.get_by_role("button", name="Move job 1 down").focus()
    await page.keyboard.press("Space")
    await expect(page.get_by_test_id("order").get_by_role("listitem").nth(1)).to_have_attribute(
        "data-job", await _id_of(house, "one")
    )
    assert await words_in_queue(house) == ["three", "one", "two"]


async def test_a_queue_is_paused_and_its_job_says_why_it_waits(house: House) -> None:
    page = await queue_page(house, "one")

    await page.get_by_role("button", name="Pause").click()
    await page.get_by_label("Why?").fill("the printer is empty")
    await page.locator("form.popup").get_by_role("button", name="Pause").click()
    await expect(page.get_by_text("paused", exact=True)).to_be_visible()
    await page.get_by_role("link", name="echo").click()
    await expect(page.get_by_role("heading", name="Why is it waiting?")).to_be_visible()
    await expect(page.get_by_test_id("why")).to_contain_text("the printer is empty")

    control = await house.plane.store.controls.get(Scope.QUEUE, "words")
    assert (control.paused, control.paused_by) == (True, "user:operator")
    await page.goto("/queues/words")
    await page.get_by_role("button", name="Go on").click()
    await expect(page.get_by_text("paused", exact=True)).to_have_count(0)


async def test_the_gate_is_closed_with_a_reason_that_every_page_then_shows(house: House) -> None:
    page = await house.page("operator", "operator")
    await page.goto("/gate")

    await page.get_by_label("Reason").fill("the model is down")
    await page.get_by_role("button", name="Close the gate").click()
    await expect(page.get_by_test_id("gate").get_by_role("heading")).to_have_text("Closed")
    await page.goto("/jobs")
    await expect(page.get_by_test_id("gate-closed")).to_contain_text("the model is down")

    gate = await house.plane.store.controls.get(Scope.GATE, "")
    assert (gate.paused, gate.pause_reason, gate.paused_by) == (True, "the model is down", "user:operator")


async def test_chosen_jobs_are_cancelled_after_being_asked_back(house: House) -> None:
    jobs = [await house.submit("echo", word=word) for word in ("one", "two", "three")]
    page = await house.page("operator", "operator")
    await page.goto("/jobs")

    await page.get_by_label(f"Choose job {jobs[0].id}").check()
    await page.get_by_label(f"Choose job {jobs[2].id}").check()
    await expect(page.get_by_text("2 chosen")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.dismiss())
    await page.get_by_role("button", name="Cancel chosen").click()
    assert {await job.status() for job in jobs} == {JobStatus.PENDING}
    page.once("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Cancel chosen").click()
    await expect(page.get_by_test_id("note")).to_have_text("Cancelled 2 jobs.")

    assert [await job.status() for job in jobs] == [JobStatus.CANCELLED, JobStatus.PENDING, JobStatus.CANCELLED]


async def test_jobs_are_found_by_words_by_state_and_by_id(house: House) -> None:
    one, two = await house.submit("echo", word="apple"), await house.submit("echo", word="pear")
    await house.plane.jobs.cancel(two.id)
    page = await house.page("operator", "operator")
    await page.goto("/jobs")
    rows = page.get_by_test_id("jobs").get_by_role("row")

    await page.keyboard.press("/")
    await page.keyboard.type("apple")
    await page.keyboard.press("Enter")
    await expect(rows).to_have_count(2)
    await expect(page.get_by_label(f"Choose job {one.id}")).to_be_visible()
    await page.wait_for_load_state()
    await page.get_by_label("Search").fill("")
    await page.get_by_label("State").select_option("CANCELLED")
    await expect(page.get_by_label(f"Choose job {two.id}")).to_be_visible()
    await expect(rows).to_have_count(2)
    await page.get_by_label("Search").fill(one.id)
    await page.get_by_label("Search").press("Enter")

    await expect(page).to_have_url(f"{house.root}/jobs/{one.id}")
    await page.goto("/jobs?text=plum")
    await expect(page.get_by_text("No job is like that")).to_be_visible()
