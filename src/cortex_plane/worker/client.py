"""Workers through a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cortex_plane.jobs.model import Run, WorkerId
from cortex_plane.people.roles import RoleMissing
from cortex_plane.remote import LARGEST_PAGE, given, read_pages
from cortex_plane.worker.model import WorkerRecord
from cortex_plane.worker.service import WorkerService, one_of

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


ALL = list[WorkerRecord]


class WorkerClient(WorkerService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def list(self, *, limit: int = 50) -> list[WorkerRecord]:
        return [*(await self._all())[:limit]]

    async def get(self, asked: str) -> WorkerRecord:
        return one_of(await self._all(), asked)

    async def names(self) -> dict[WorkerId, str]:
        """Workers belong to the installation: callers limited to one tenant see their ids only."""
        try:
            return await super().names()
        except RoleMissing:
            return {}

    async def busy(self) -> dict[WorkerId, int]:
        """With runs of the key's tenant."""
        runs = await read_pages(self._server, Run, "runs", limit=LARGEST_PAGE)
        return dict(Counter(run.worker_id for run in runs if run.worker_id is not None))

    async def drain(self, asked: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        before = await self.get(asked)
        await self._server.post(WorkerRecord, "workers", before.id, "drain", body=given(reason=reason))
        return before.drain_asked_at is None

    async def _all(self) -> Sequence[WorkerRecord]:
        return await self._server.get(ALL, "workers")
