"""Getting in: by the one-time link of `cortex dev`, by name and password; and a worker that is killed by its button."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from cortex_plane import Plane, Settings
from tests.browser.house import PASSWORD, watched
from tests.cli.processes import Process, started

pytestmark = pytest.mark.anyio

# The first attempt waits for ever; the second goes on. What it has done before is not done again.
APP = """
import asyncio
from pathlib import Path

from cortex_plane import Context, Plane

plane = Plane()


async def build() -> str:
    with Path("built.txt").open("a") as file:
        file.write("built\\n")
    return "shop:1"


@plane.agent("release")
async def release(ctx: Context) -> str:
    image = await ctx.step("build", build)
    ctx.log.info("built", attempt=ctx.attempt)
    if ctx.attempt == 1:
        await asyncio.Event().wait()
    return f"{image} is live"
"""


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context(locale="en-GB")
    yield await context.new_page()
    await context.close()


@contextmanager
def dev(folder: Path) -> Iterator[tuple[str, Process]]:
    """The link that it prints."""
    (folder / "app.py").write_text(APP)
    url = f"sqlite:///{folder}/cortex.db"
    with started("dev", "app.py", "--port", "0", folder=folder, CORTEX_DATABASE_URL=url, CORTEX_LOG_JSON="false") as process:
        process.wait_for("/first?token=")
        try:
            yield process.lines[-1].strip(), process
        finally:
            process.signal(signal.SIGTERM)
            process.ended()


@pytest.mark.timeout(120)
async def test_the_link_of_dev_lets_one_browser_in_and_the_job_of_a_killed_worker_goes_on(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    with dev(tmp_path) as (link, process):
        root = link.partition("/first")[0]
        trouble = watched(page, root)
        await page.goto(link)
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert "token" not in page.url

        process.wait_for("worker_started")
        await page.get_by_role("link", name="Jobs", exact=True).click()
        await page.get_by_role("button", name="New job").click()
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_test_id("log")).to_contain_text("built")
        job = page.url

        await page.get_by_role("link", name="Workers", exact=True).click()
        await page.get_by_role("button", name="Kill this worker").click()
        await expect(page.get_by_test_id("note")).to_contain_text("SIGKILL")
        await page.goto(job)
        state = page.get_by_role("heading", level=1).get_by_test_id("status")
        await expect(state).to_have_text("Completed", timeout=40_000)
        await expect(page.get_by_test_id("runs")).to_contain_text("worker lost")
        await expect(page.get_by_test_id("runs").get_by_role("row")).to_have_count(2)
        await expect(page.get_by_test_id("history")).to_contain_text("its worker was lost; it goes on elsewhere")

        another = await (await browser.new_context()).new_page()
        await another.goto(link)
        await expect(another.get_by_role("heading", name="Sign in")).to_be_visible()
        await another.context.close()

    assert (tmp_path / "built.txt").read_text() == "built\n"
    assert trouble == []


@pytest.mark.timeout(120)
async def test_one_signs_in_by_name_and_password_and_is_told_of_a_wrong_one(page: Page, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/cortex.db"
    async with Plane(settings=Settings(database_url=url)) as plane:
        await plane.access.add_user("operator")
        await plane.access.set_password("operator", PASSWORD)
        await plane.access.give_role("operator", "operator")
    with started("serve", "--port", "0", folder=tmp_path, CORTEX_DATABASE_URL=url, CORTEX_LOG_JSON="false") as process:
        process.wait_for("Serving on")
        found = re.search(r"http://[\d.:]+", process.lines[-1])
        assert found is not None
        trouble = watched(page, found[0], refusals=[401])
        await page.goto(f"{found[0]}/jobs?status=FAILED")

        await page.get_by_label("Name").fill("operator")
        await page.get_by_label("Password").fill("wrong horse")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("There is no such user, or the password is wrong.")
        await expect(page.get_by_label("Name")).to_have_value("operator")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
        await expect(page.get_by_label("State")).to_have_value("FAILED")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    assert trouble == []
    with sqlite3.connect(tmp_path / "cortex.db") as database:
        assert database.execute("select count(*) from login_session").fetchone() == (0,)
