"""The API on both stores, spoken to as programs and browsers do: `await api.admin.get("/jobs")`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import URL, ASGITransport, AsyncClient

from cortex_plane import Context
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.people.tenants import add_tenant
from cortex_plane.settings import Settings
from cortex_plane.testing import TestPlane
from tests.apps import app_of

BASE = "http://localhost/api/v1"
INTERNAL = "http://localhost/api/internal"
SECRET, OTHER_SECRET = "the-secret-of-the-service", "the-next-secret-of-the-service"
SIGNING, OTHER_SIGNING = "what-services-sign-their-tokens-with", "what-services-will-sign-their-tokens-with"


class Api:
    """One app, and clients with keys of any role in any tenant."""

    def __init__(self, plane: TestPlane, app: FastAPI, stack: AsyncExitStack) -> None:
        self.plane, self.app, self._stack = plane, app, stack

    async def client(self, *roles: str, tenant: str | None = "default", **options: Any) -> AsyncClient:
        key = (await self.plane.access.add_key("test", roles, tenant=tenant, **options)).secret
        return await self.stranger(Authorization=f"Bearer {key}")

    async def stranger(self, **headers: str) -> AsyncClient:
        client = AsyncClient(transport=ASGITransport(self.app, raise_app_exceptions=False), base_url=BASE, headers=headers)
        return await self._stack.enter_async_context(client)

    async def service(self, secret: str = SECRET, **headers: str) -> AsyncClient:
        """As a program of the installation, to the execution service."""
        client = await self.stranger(Authorization=f"Bearer {secret}", **headers)
        client.base_url = URL(INTERNAL)
        return client

    async def tenant(self, name: str) -> None:
        await add_tenant(self.plane.store, new_id, name)

    async def submit(self, agent: str = "echo", tenant: str = "default", **payload: Any) -> JobId:
        return (await self.plane.submit(agent, payload, tenant=tenant)).id


def with_secrets(settings: Settings, **others: Any) -> Settings:
    secrets = {"internal_api_token": SECRET, "internal_api_previous_token": OTHER_SECRET}
    signing = {"internal_jwt_secret": SIGNING, "internal_jwt_previous_secret": OTHER_SIGNING}
    return replace(settings, **{**secrets, **signing, **others})


@pytest.fixture
async def api(plane: TestPlane) -> AsyncIterator[Api]:
    plane.settings = replace(plane.settings, stream_seconds=0.01)  # Whoever asks here waits for the end of the answer.

    @plane.agent("echo")
    async def echo(ctx: Context, word: str = "hello", group: dict[str, Any] | None = None) -> str:
        return word

    @plane.agent("fail")
    async def fail(ctx: Context) -> None:
        raise ValueError("no")

    async with AsyncExitStack() as stack:
        yield Api(plane, app_of(plane, with_secrets(plane.settings)), stack)


@pytest.fixture
async def admin(api: Api) -> AsyncClient:
    return await api.client("admin")
