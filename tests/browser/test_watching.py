"""Watching a job: what happens shows by itself, without the page being loaded again."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.house import House

pytestmark = pytest.mark.anyio


async def test_states_steps_log_and_progress_of_a_job_appear_by_themselves(either_house: House) -> None:
    house = either_house
    page = await house.page("operator", "operator")
    job = await house.submit("release")
    await page.goto(f"/jobs/{job.id}")
    state = page.get_by_role("heading", level=1).get_by_test_id("status")
    await expect(state).to_have_text("Pending")
    await page.evaluate("window.isTheSamePage = true")

    house.work()
    await expect(state).to_have_text("Running")
    await expect(page.get_by_test_id("log")).to_contain_text("building")
    house.go["build"].set()
    await expect(page.get_by_test_id("steps")).to_contain_text("shop:1.4.0")
    await expect(page.get_by_label("Progress").first).to_contain_text("1 of 2")
    await expect(page.get_by_test_id("log")).to_contain_text("built")
    await expect(state).to_have_text("Waiting for approval")
    await expect(page.get_by_test_id("why")).to_contain_text("Deploy 1.4.0")

    assert await page.evaluate("window.isTheSamePage")


async def test_new_jobs_appear_in_the_list_by_themselves(house: House) -> None:
    page = await house.page("operator", "operator")
    await page.goto("/jobs")
    await expect(page.get_by_test_id("empty")).to_be_visible()

    job = await house.submit("echo", word="hello")

    await expect(page.get_by_label(f"Choose job {job.id}")).to_be_visible()


async def test_a_live_part_in_which_somebody_chooses_is_left_alone(house: House) -> None:
    page = await house.page("operator", "operator")
    first = await house.submit("echo", word="one")
    await page.goto("/jobs")
    box = page.get_by_label(f"Choose job {first.id}")
    await box.check()

    second = await house.submit("echo", word="two")
    ticks = await page.evaluate(
        """() => new Promise((done) => {
            const stream = new EventSource("/live");
            stream.addEventListener("tick", () => { stream.close(); setTimeout(() => done(1), 300); });
        })"""
    )

    assert ticks == 1
    await expect(box).to_be_checked()
    await expect(page.get_by_label(f"Choose job {second.id}")).to_have_count(0)
