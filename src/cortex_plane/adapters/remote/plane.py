"""A plane behind a server. What it does not offer needs the database, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.access import RemoteAccess
from cortex_plane.adapters.remote.approvals import RemoteApprovals
from cortex_plane.adapters.remote.auditing import RemoteAuditing
from cortex_plane.adapters.remote.checkpoints import RemoteCheckpoints
from cortex_plane.adapters.remote.grants import RemoteBilling, RemoteGrants
from cortex_plane.adapters.remote.groups import RemoteGroups
from cortex_plane.adapters.remote.jobs import RemoteJobs
from cortex_plane.adapters.remote.people import RemotePeople
from cortex_plane.adapters.remote.runs import RemoteRuns
from cortex_plane.adapters.remote.schedules import RemoteSchedules
from cortex_plane.adapters.remote.server import Server
from cortex_plane.adapters.remote.steering import RemoteSteering
from cortex_plane.adapters.remote.templates import RemoteTemplates
from cortex_plane.adapters.remote.tenants import RemoteCosts, RemoteRetention, RemoteTenants
from cortex_plane.adapters.remote.webhooks import RemoteWebhooks
from cortex_plane.adapters.remote.workers import RemoteWorkers
from cortex_plane.core.server_urls import NeedsDatabase
from cortex_plane.plane import Plane

if TYPE_CHECKING:
    from typing import Self

    from cortex_plane.opened import Opened
    from cortex_plane.settings import Settings


class RemotePlane(RemoteJobs, RemoteSteering, Plane):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings=settings)
        self.server = server = Server(settings.server, settings.api_key, settings.server_tenant)
        self.runs = RemoteRuns(self, server)
        self.workers = RemoteWorkers(self, server)
        self.checkpoints = RemoteCheckpoints(self, server)
        self.approvals = RemoteApprovals(self, server)
        self.templates = RemoteTemplates(self, server)
        self.groups = RemoteGroups(self, server)
        self.schedules = RemoteSchedules(self, server)
        self.grants = RemoteGrants(self, server)
        self.billing = RemoteBilling(self, server)
        self.tenants = RemoteTenants(self, server)
        self.costs = RemoteCosts(self, server)
        self.retention = RemoteRetention(self, server)
        self.access = RemoteAccess(self, server)
        self.people = RemotePeople(self, server)
        self.webhooks = RemoteWebhooks(self, server)
        self.audit = RemoteAuditing(self, server)

    async def _open_here(self) -> Opened:
        raise NeedsDatabase

    async def __aenter__(self) -> Self:
        return self

    async def close(self) -> None:
        await self.server.close()
