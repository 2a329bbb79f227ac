"""Templates through a server."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Unpack, cast

from cortex_plane.jobs.fields import SubmitOptions, TemplateOptions, check_submit_options, check_template_options
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import Job
from cortex_plane.people.model import OWN_TENANT
from cortex_plane.remote import given, job_body
from cortex_plane.templates.model import Template
from cortex_plane.templates.service import TemplateService

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


class TemplateClient(TemplateService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def save(
        self,
        name: str,
        agent: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[TemplateOptions],
    ) -> Template:
        check_template_options("templates.save", options)
        body = given(agent=agent, params=params) | job_body(options)
        return await self._server.put(Template, "templates", name, body=body, tenant=options.get("tenant"))

    async def get(self, name: str, *, tenant: str = OWN_TENANT) -> Template:
        return await self._server.get(Template, "templates", name, tenant=tenant)

    async def remove(self, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> None:
        await self._server.delete(NoneType, "templates", name, tenant=tenant)

    async def submit(
        self, name: str, overrides: Mapping[str, Any] | None = None, **options: Unpack[SubmitOptions]
    ) -> JobHandle[Any]:
        check_submit_options("templates.submit", options)
        body = {"overrides": dict(overrides or {}), **job_body(options)}
        job = await self._server.create(Job, "templates", name, "jobs", body=body, tenant=options.get("tenant"))
        return self._client.jobs.handle(job.id)

    async def list(self, *, tenant: str = OWN_TENANT) -> list[Template]:
        return await self._server.get(list[Template], "templates", tenant=tenant)
