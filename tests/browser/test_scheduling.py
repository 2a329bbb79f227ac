"""A new schedule: what is wrong with it is told where it is wrong; what is right is shown with what comes next."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.house import House

pytestmark = pytest.mark.anyio


async def test_a_wrong_rule_is_told_at_its_field_and_a_right_one_shows_its_next_slots(house: House) -> None:
    page = await house.page("operator", "operator", refusals=[422], timezone_id="Asia/Kolkata")
    await page.goto("/schedules")
    await page.get_by_role("link", name="New schedule").click()

    await page.get_by_label("Name", exact=True).fill("morning words")
    await page.get_by_label("What runs").select_option("agent:echo")
    await page.get_by_label("When").fill("61 9 * * *")
    await page.get_by_label("Input").fill('{"word": "good morning"}')
    await page.get_by_role("button", name="Add the schedule").click()
    when = page.get_by_label("When")
    await expect(when).to_have_attribute("aria-invalid", "true")
    told = page.locator("#about-cron")
    await expect(told).to_contain_text("61")
    await expect(told).to_contain_text("minute")
    await expect(when).to_be_focused()
    await expect(page.get_by_label("Name", exact=True)).to_have_value("morning words")
    assert await house.plane.schedules.list() == []

    await when.fill("0 9 * * *")
    await page.get_by_role("button", name="Add the schedule").click()
    await expect(page.get_by_role("heading", name="morning words", level=1)).to_be_visible()
    slots = page.get_by_test_id("coming").get_by_role("listitem")
    await expect(slots).to_have_count(10)
    await expect(slots.first).to_contain_text("14:30")
    await expect(slots.first.locator("time")).to_have_attribute("title", re.compile(r" 09:00:00.* UTC$"))

    [made] = await house.plane.schedules.list()
    assert (made.terms.cron, made.terms.input, made.created_by) == ("0 9 * * *", {"word": "good morning"}, "user:operator")


@pytest.mark.parametrize(
    ("label", "wrong", "field", "said"),
    [
        ("On whose clocks", "Europe/Berln", "timezone", "Europe/Berlin"),
        ("Input", "{", "input", "not JSON"),
        ("Input", "[1]", "input", "arguments by name"),
        ("Name", "", "name", "1 to 200 characters"),
        ("Name", "taken", "name", "already"),
    ],
)
async def test_whatever_is_wrong_is_told_at_its_field(house: House, label: str, wrong: str, field: str, said: str) -> None:
    page = await house.page("operator", "operator", refusals=[422])
    await house.plane.schedules.add("taken", "agent:echo", "@daily")
    await page.goto("/schedules/new")
    await page.get_by_label("Name", exact=True).fill("words")
    await page.get_by_label("When").fill("@daily")

    await page.get_by_label(label, exact=label == "Name").fill(wrong)
    await page.get_by_role("button", name="Add the schedule").click()

    await expect(page.locator(f"#about-{field}")).to_contain_text(said)
    await expect(page.locator("[aria-invalid=true]")).to_have_attribute("name", field)
    assert [one.name for one in await house.plane.schedules.list()] == ["taken"]
