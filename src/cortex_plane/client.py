"""A plane behind a server. What it does not offer needs the database, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.approvals.client import RemoteApprovals
from cortex_plane.audit.client import RemoteAuditing
from cortex_plane.durable.client import RemoteCheckpoints
from cortex_plane.grants.client import RemoteBilling, RemoteGrants
from cortex_plane.groups.client import RemoteGroups
from cortex_plane.jobs.client import RemoteJobs, RemoteRuns
from cortex_plane.people.client import RemoteAccess, RemoteCosts, RemotePeople, RemoteRetention, RemoteTenants
from cortex_plane.plane import Plane
from cortex_plane.queues.client import RemoteSteering
from cortex_plane.remote import Server
from cortex_plane.schedules.client import RemoteSchedules
from cortex_plane.server_urls import NeedsDatabase
from cortex_plane.templates.client import RemoteTemplates
from cortex_plane.webhooks.client import RemoteWebhooks
from cortex_plane.worker.client import RemoteWorkers

if TYPE_CHECKING:
    from typing import Self

    from cortex_plane.agents.directory import Directory
    from cortex_plane.settings import Settings
    from cortex_plane.stores import Store


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

    @property
    def store(self) -> Store:  # type: ignore[override]
        raise NeedsDatabase

    @property
    def directory(self) -> Directory:  # type: ignore[override]
        raise NeedsDatabase

    async def open(self) -> None:
        """A server is asked when it is needed."""

    async def __aenter__(self) -> Self:
        return self

    async def close(self) -> None:
        await self.server.close()
