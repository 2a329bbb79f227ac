"""Checkpoints through a server. Verifying all of them, and trying code on them, needs the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from cortex_plane.durable.service import Checkpoints
from cortex_plane.errors import InvalidInput, JobNotFound, NotFound
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import Job

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.durable.load import Blob
    from cortex_plane.ids import NewId
    from cortex_plane.plane import Plane


class CheckpointClient(Checkpoints):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def get(self, id_or_prefix: str) -> Blob:
        return await self._server.get(dict[str, Any], "jobs", await self._client.jobs.find(id_or_prefix), "checkpoint")

    async def fork(
        self, id_or_prefix: str, from_step: str, *, created_by: str | None = None, ids: NewId | None = None
    ) -> JobHandle[Any]:
        job_id = await self._client.jobs.find(id_or_prefix)
        try:
            made = await self._server.create(Job, "jobs", job_id, "fork", body={"from_step": from_step})
        except JobNotFound:
            raise
        except NotFound as error:  # The API reports that there is no such step; here that is an invalid option.
            raise InvalidInput(str(error), field="from_step") from None
        return self._client.jobs.handle(made.id)
