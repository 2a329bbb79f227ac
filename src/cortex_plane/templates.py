"""`plane.templates`: job definitions that are stored once and submitted often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from cortex_plane.core.jobs import DEFAULT_TENANT
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.core.templates import Template
from cortex_plane.handles import JobHandle
from cortex_plane.operations.find_template import find_template
from cortex_plane.operations.remove_template import remove_template
from cortex_plane.operations.save_template import save_template
from cortex_plane.operations.submit_from_template import submit_from_template
from cortex_plane.operations.submit_jobs import Submission
from cortex_plane.options import SubmitOptions

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Templates:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def save(
        self,
        name: str,
        agent: str,
        params: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int = 0,
        max_retries: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | timedelta | None = None,
        tags: Sequence[str] = (),
        tenant: str = DEFAULT_TENANT,
        created_by: str | None = None,
    ) -> Template:
        """Under a name that is taken, the template is changed and its version counted up."""
        opened = await self._plane._open_here()
        asked = Submission(
            agent,
            params,
            queue,
            priority,
            max_retries=max_retries,
            retry=retry,
            timeout=timeout,
            tags=tags,
            tenant=tenant,
            created_by=created_by,
        )
        limit = self._plane.settings.payload_limit_bytes
        return await save_template(opened.store, opened.directory, self._plane._ids, name, asked, payload_limit_bytes=limit)

    async def get(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Template:
        opened = await self._plane._open_here()
        return await find_template(opened.store, opened.directory, name, tenant=tenant)

    async def list(self, *, tenant: str = DEFAULT_TENANT) -> list[Template]:
        """By name."""
        opened = await self._plane._open_here()
        return await opened.store.templates.list(await opened.directory.tenant(tenant))

    async def remove(self, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> None:
        """Its jobs keep everything that it said."""
        opened = await self._plane._open_here()
        await remove_template(opened.store, opened.directory, name, tenant=tenant, actor=actor)

    async def submit(
        self, name: str, overrides: Mapping[str, Any] | None = None, **options: Unpack[SubmitOptions]
    ) -> JobHandle[Any]:
        """A job as the template says now; `overrides` replace keys of its params, `options` what it says about the rest."""
        opened = await self._plane._open_here()
        asked: dict[str, Any] = dict(options)
        connection = asked.pop("connection", None)
        job_id = await submit_from_template(
            opened.store,
            opened.directory,
            self._plane._ids,
            name,
            overrides,
            asked,
            connection=connection,
            payload_limit_bytes=self._plane.settings.payload_limit_bytes,
        )
        return JobHandle(self._plane, job_id)
