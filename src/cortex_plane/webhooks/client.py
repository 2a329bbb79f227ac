"""Webhooks through a server."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from cortex_plane.cursors import cursor_for
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import Job
from cortex_plane.people.model import OWN_TENANT
from cortex_plane.remote import given, read_pages
from cortex_plane.webhooks.model import AddedEndpoint, DeadLetter, Endpoint, EndpointId
from cortex_plane.webhooks.service import WebhookService, endpoint_named

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


class WebhookClient(WebhookService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def add(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        tenant: str = OWN_TENANT,
        secret: str | None = None,
        description: str | None = None,
        allow_private: bool = False,
        actor: str | None = None,
    ) -> AddedEndpoint:
        body = given(
            url=url,
            events=None if events is None else list(events),
            secret=secret,
            description=description,
            allow_private=allow_private,
        )
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
        return self._client.jobs.handle(job.id)

    async def dead_letters(self, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> list[DeadLetter]:
        cursor = None if before is None else cursor_for("dead", before)
        return await read_pages(self._server, DeadLetter, "dead-letters", limit=limit, cursor=cursor, tenant=tenant)

    async def redeliver(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        job_id = await self._client.jobs.find(id_or_prefix)
        job = await self._server.post(Job, "dead-letters", job_id, "redeliver")
        return self._client.jobs.handle(job.id)

    async def _id(self, id_or_prefix: str) -> EndpointId:
        return endpoint_named(id_or_prefix, await self.list()).id

    async def list(self, *, tenant: str | None = None) -> list[Endpoint]:
        return await self._server.get(list[Endpoint], "webhooks", tenant=tenant)
