"""A plane with agents that go on when the test says so, served to browsers that note what goes wrong on a page."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route

from cortex_plane import Context, JobHandle, Plane, Settings
from cortex_plane.dashboard.app import create_dashboard
from docs.screenshots.serving import served
from docs.screenshots.signing_in import signed_in

PASSWORD = "correct horse battery staple"
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


class Trouble(list[str]):
    """What a page should not do: complain, break its own policy, ask others for anything."""

    async def gather(self, page: Page) -> Trouble:
        self += await page.evaluate("window.violations || []")
        return self


def watched(page: Page, root: str, refusals: Sequence[int] = ()) -> Trouble:
    """A browser complains of each answer that refuses something; of `refusals` it may."""
    trouble = Trouble()

    def hear(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning") and not any(str(status) in said.text for status in refusals):
            trouble.append(f"console: {said.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: trouble.append(f"script: {error}"))
    page.on("request", lambda asked: trouble.append(f"asked elsewhere: {asked.url}") if _is_foreign(asked, root) else None)
    return trouble


def _is_foreign(request: Request, root: str) -> bool:
    return not request.url.startswith((f"{root}/", "data:", "about:"))


class House:
    """`go["build"].set()` lets every agent past that step."""

    def __init__(self, plane: Plane, root: str, browser: Browser) -> None:
        self.plane, self.root, self._browser = plane, root, browser
        self.go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.troubles: list[tuple[Page, Trouble]] = []
        self._working: asyncio.Task[None] | None = None
        self._contexts: list[BrowserContext] = []
        plane.agent("release", max_retries=0)(self._release)
        plane.agent("echo", queue="words")(self._echo)

    async def _release(self, ctx: Context, version: str = "1.4.0") -> str:
        ctx.log.info("building", version=version)
        image = await ctx.step("build", self._build, version)
        ctx.progress(1, 2, "built")
        ctx.log.info("built", image=image)
        answer = await ctx.approval(f"Deploy {version}", details={"image": image, "replicas": 3}, editable=["replicas"])
        ctx.log.info("deciding is done", replicas=answer.details["replicas"])
        return f"{answer.details['replicas']} replicas of {image}"

    async def _build(self, version: str) -> str:
        await self.go["build"].wait()
        return f"shop:{version}"

    async def _echo(self, ctx: Context, word: str = "") -> str:
        return word

    # -- people and their browsers -----------------------------------------------------------------

    async def person(self, name: str, *roles: str, password: str | None = None) -> None:
        await self.plane.access.add_user(name)
        for role in roles:
            await self.plane.access.give_role(name, role)
        if password is not None:
            await self.plane.access.set_password(name, password)

    async def page(self, name: str | None = None, *roles: str, **look: Any) -> Page:
        """A browser of somebody's own; of nobody whom we know, without a name. What is foreign to us is not reached."""
        refusals = look.pop("refusals", ())
        context = await self._browser.new_context(**{"base_url": self.root, "locale": "en-GB", **look})
        self._contexts.append(context)
        await context.route(lambda url: not url.startswith(f"{self.root}/"), _refuse)
        if look.get("java_script_enabled", True):
            await context.add_init_script(VIOLATIONS)
        if name is not None:
            if roles:
                await self.person(name, *roles)
            await signed_in(context, self.plane, self.root, name)
        page = await context.new_page()
        self.troubles.append((page, watched(page, self.root, refusals)))
        return page

    # -- work --------------------------------------------------------------------------------------

    async def submit(self, agent: str, **payload: Any) -> JobHandle[Any]:
        return await self.plane.submit(agent, payload)

    def work(self) -> None:
        """A worker is at work until the test ends."""
        self._working = asyncio.create_task(self.plane.run_worker(["default", "words"], name="worker-1"))

    async def close(self) -> None:
        for page, trouble in self.troubles:
            if not page.is_closed():
                await trouble.gather(page)
        for context in self._contexts:
            await context.close()
        if self._working is not None:
            self.plane.stop_workers()
            await self._working
        assert [trouble for _, trouble in self.troubles if trouble] == []


async def _refuse(route: Route) -> None:
    await route.abort()


@asynccontextmanager
async def house_on(database_url: str, browser: Browser, folder: Path) -> AsyncIterator[House]:
    """At its end, what went wrong on any page is told."""
    settings = Settings(database_url=database_url, data_dir=str(folder / "files"), grace_seconds=0.2, http_port=0)
    plane = Plane(settings=settings)
    async with served(create_dashboard(plane)) as root:
        house = House(plane, root, browser)
        await plane.open()
        try:
            yield house
        finally:
            await house.close()
