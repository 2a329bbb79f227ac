"""The dashboard on both stores, with somebody signed in as a browser would be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from cortex_plane import Context
from cortex_plane.http.auth import COOKIE, csrf_token
from cortex_plane.jobs.model import JobId
from cortex_plane.people.login import open_sign_in
from cortex_plane.people.roles import AccountExists
from cortex_plane.testing import TestPlane
from tests.apps import dashboard_of


@dataclass(frozen=True, slots=True)
class Browser:
    """Somebody who is signed in."""

    client: AsyncClient
    csrf: str

    async def get(self, path: str) -> Response:
        return await self.client.get(path)

    async def post(self, path: str, **fields: str | list[str]) -> Response:
        return await self.client.post(path, data={"csrf_token": self.csrf, **fields})

    async def note(self, answer: Response) -> str:
        """What the page says to which an action leads."""
        assert answer.status_code == 303, answer.text
        page = await self.get(answer.headers["location"])
        assert page.status_code == 200
        return page.text.partition('data-testid="note">')[2].partition("</div>")[0]


class Site:
    def __init__(self, plane: TestPlane, app: FastAPI, stack: AsyncExitStack) -> None:
        self.plane, self.app, self._stack = plane, app, stack

    async def stranger(self) -> AsyncClient:
        client = AsyncClient(transport=ASGITransport(self.app, raise_app_exceptions=False), base_url="http://localhost")
        return await self._stack.enter_async_context(client)

    async def browser(self, *roles: str, tenant: str | None = None, name: str = "ada") -> Browser:
        try:
            await self.plane.access.add_user(name)
        except AccountExists:
            pass
        for role in roles:
            await self.plane.access.give_role(name, role, tenant=tenant)
        signed_in = await open_sign_in(self.plane.store, await self.plane.access.user(name))
        client = await self.stranger()
        client.cookies.set(COOKIE, signed_in.token)
        return Browser(client, csrf_token(signed_in.token))

    async def submit(self, agent: str = "echo", **payload: str) -> JobId:
        return (await self.plane.submit(agent, payload)).id


@pytest.fixture
async def site(plane: TestPlane) -> AsyncIterator[Site]:
    @plane.agent("echo")
    async def echo(ctx: Context, word: str = "hello") -> str:
        ctx.log.info("said", word=word)
        return word

    @plane.agent("fail", max_retries=0)
    async def fail(ctx: Context) -> None:
        raise ValueError("it <b>broke</b>")

    @plane.agent("release")
    async def release(ctx: Context, version: str = "1") -> str:
        async def build(version: str) -> dict[str, str]:
            return {"image": version, "api_key": "hush-hush"}

        built = await ctx.step("build", build, version)
        await ctx.approval(f"Deploy {version}", details={"image": built["image"]}, editable=["image"])
        return version

    @plane.agent("ask")
    async def ask(ctx: Context, who: str, api_key: str = "") -> None:
        await ctx.approval("Deploy 1", approvers=who, details={"api_key": api_key})

    async with AsyncExitStack() as stack:
        yield Site(plane, dashboard_of(plane), stack)


@pytest.fixture
async def admin(site: Site) -> Browser:
    return await site.browser("admin", "approver")
