"""A plane behind a server. What it does not offer needs the database, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.checkpoints import RemoteCheckpoints
from cortex_plane.adapters.remote.jobs import RemoteJobs
from cortex_plane.adapters.remote.server import Server
from cortex_plane.adapters.remote.steering import RemoteSteering
from cortex_plane.core.server_urls import NeedsDatabase
from cortex_plane.plane import Plane

if TYPE_CHECKING:
    from typing import Self

    from cortex_plane.plane import Opened
    from cortex_plane.settings import Settings


class RemotePlane(RemoteJobs, RemoteSteering, Plane):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings=settings)
        self.server = server = Server(settings.server, settings.api_key, settings.server_tenant)
        self.checkpoints = RemoteCheckpoints(self, server)

    async def _open_here(self) -> Opened:
        raise NeedsDatabase

    async def __aenter__(self) -> Self:
        return self

    async def close(self) -> None:
        await self.server.close()
