"""Every page of the dashboard, light and dark, wide and on a phone. The pages are taken from the routes, so none is forgotten."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from cortex_plane.dashboard.app import create_dashboard
from cortex_plane.testing import TestPlane
from docs.screenshots.demo import demo
from docs.screenshots.pages import Page as Place
from docs.screenshots.pages import pages
from docs.screenshots.serving import served
from docs.screenshots.signing_in import signed_in
from tests.browser.house import VIOLATIONS, Trouble, watched
from tests.browser.page_checks import barriers, reached_by_tab, too_wide

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

WIDE = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 375, "height": 700}, "is_mobile": True, "has_touch": True}
# What one comes to a page for.
MAIN_ACTIONS = {
    "sign-in": "Sign in",
    "jobs": "Search",
    "job": "Run again",
    "queue": "Pause",
    "gate": "Close the gate",
    "approvals": "Approve",
    "approval": "Deny",
    "schedules": "New schedule",
    "schedules-new": "Add the schedule",
    "schedule": "Run now",
    "audit": "Search",
    "access": "New key",
    "tenants": "New tenant",
}


class Gallery:
    def __init__(self, plane: TestPlane, places: list[Place], root: str, browser: Browser) -> None:
        self.plane, self.places, self.root, self._browser = plane, places, root, browser

    async def open(self, **look: Any) -> tuple[Page, Trouble]:
        context = await self._browser.new_context(base_url=self.root, locale="en-GB", **look)
        await context.route(lambda url: not url.startswith(f"{self.root}/"), lambda route: route.abort())
        await context.add_init_script(VIOLATIONS)
        await context.clock.set_fixed_time(self.plane.clock.moment())
        await signed_in(context, self.plane, self.root, "operator")
        page = await context.new_page()
        return page, watched(page, self.root)


@pytest.fixture(scope="module")
async def gallery(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gallery]:
    """The pages of a plane with some of everything."""
    async with demo(tmp_path_factory.mktemp("demo"), minutes=12) as shown, served(create_dashboard(shown.front)) as root:
        yield Gallery(shown.plane, pages(shown.places), root, browser)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("look", [WIDE, PHONE], ids=["wide", "phone"])
async def test_a_page_shuts_nobody_out_fits_its_window_and_keeps_to_itself(
    gallery: Gallery, scheme: str, look: dict[str, Any]
) -> None:
    page, trouble = await gallery.open(color_scheme=scheme, **look)
    wrong: dict[str, list[str]] = {}
    for place in gallery.places:
        await page.goto(place.address)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        # Only the colours are others in the dark.
        only = "color-contrast" if scheme == "dark" else ""
        found = [*await barriers(page, only), *await too_wide(page), *await trouble.gather(page)]
        if found:
            wrong[place.name] = found
        trouble.clear()
    await page.context.close()

    assert wrong == {}


async def test_what_one_comes_for_is_reached_by_the_tab_key(gallery: Gallery) -> None:
    page, _ = await gallery.open(**WIDE)
    missed: dict[str, set[str]] = {}
    for place in gallery.places:
        await page.goto(place.address)
        wanted = {MAIN_ACTIONS[place.name]} if place.name in MAIN_ACTIONS else set()
        if place.name != "sign-in":
            wanted |= {"Skip to the content", "Overview", "Sign out"}
        missing = wanted - await reached_by_tab(page)
        if missing:
            missed[place.name] = missing
    await page.context.close()

    assert missed == {}


async def test_times_are_told_in_the_zone_of_the_viewer_and_in_utc_to_whoever_points_at_them(gallery: Gallery) -> None:
    page, _ = await gallery.open(timezone_id="Asia/Kolkata", **WIDE)
    seen = 0
    for place in gallery.places:
        await page.goto(place.address)
        for time in await page.locator("main time[data-form=full]").all():
            shown, title = await time.inner_text(), await time.get_attribute("title") or ""
            utc = re.fullmatch(r"\d{4}-\d\d-\d\d (\d\d):(\d\d):(\d\d)\.\d{6} UTC", title)
            assert utc is not None, (place.name, title)
            minutes = (int(utc[1]) * 60 + int(utc[2]) + 330) % (24 * 60)
            assert f"{minutes // 60:02}:{minutes % 60:02}:{utc[3]}" in shown, (place.name, shown, title)
            seen += 1
    await page.context.close()

    assert seen > 20


async def test_light_and_dark_are_switched_by_hand_and_kept(gallery: Gallery) -> None:
    page, _ = await gallery.open(color_scheme="light", **WIDE)
    await page.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(ground)

    await page.get_by_role("button", name="Light or dark").click()
    dark = await page.evaluate(ground)
    await page.goto("/jobs")

    assert light != dark
    assert await page.evaluate(ground) == dark
    await page.context.close()
