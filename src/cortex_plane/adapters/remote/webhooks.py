"""Webhooks through a server."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.remote.bodies import given
from cortex_plane.adapters.remote.pages import read_pages
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.cursors import cursor_for
from cortex_plane.core.jobs import Job
from cortex_plane.core.tenants import OWN_TENANT
from cortex_plane.core.webhooks import AddedEndpoint, DeadLetter, Endpoint, EndpointId
from cortex_plane.handles import JobHandle
from cortex_plane.operations.find_endpoint import endpoint_named
from cortex_plane.webhooks import Webhooks

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class RemoteWebhooks(Webhooks):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def add(
        self,
        url: str,
        *,
        events: Sequence[str] = ("*",),
        tenant: str = OWN_TENANT,
        secret: str | None = None,
        description: str | None = None,
        allow_private: bool = False,
        actor: str | None = None,
    ) -> AddedEndpoint:
        body = given(url=url, events=list(events), secret=secret, description=description, allow_private=allow_private)
        return await self._server.create(AddedEndpoint, "webhooks", body=body, tenant=tenant)

    async def remove(self, id_or_prefix: str, *, actor: str | None = None) -> EndpointId:
        endpoint_id = await self._id(id_or_prefix)
        await self._server.delete(NoneType, "webhooks", endpoint_id)
        return endpoint_id

    async def enable(self, id_or_prefix: str, *, actor: str | None = None) -> Endpoint:
        return await self._server.post(Endpoint, "webhooks", await self._id(id_or_prefix), "enable")

    async def disable(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Endpoint:
        path = ("webhooks", await self._id(id_or_prefix), "disable")
        return await self._server.post(Endpoint, *path, body=given(reason=reason))

    async def test(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        job = await self._server.post(Job, "webhooks", await self._id(id_or_prefix), "test")
        return JobHandle(self._plane, job.id)

    async def dead_letters(self, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> list[DeadLetter]:
        cursor = None if before is None else cursor_for("dead", before)
        return await read_pages(self._server, DeadLetter, "dead-letters", limit=limit, cursor=cursor, tenant=tenant)

    async def redeliver(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        job_id = await self._plane.find(id_or_prefix)
        job = await self._server.post(Job, "dead-letters", job_id, "redeliver")
        return JobHandle(self._plane, job.id)

    async def _id(self, id_or_prefix: str) -> EndpointId:
        return endpoint_named(id_or_prefix, await self.list()).id

    async def list(self, *, tenant: str | None = None) -> list[Endpoint]:
        return await self._server.get(list[Endpoint], "webhooks", tenant=tenant)
