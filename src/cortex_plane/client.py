"""`Client`: the services of a plane through its HTTP API."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from cortex_plane.approvals.client import ApprovalClient
from cortex_plane.audit.client import AuditClient
from cortex_plane.clock import SystemClock
from cortex_plane.durable.client import CheckpointClient
from cortex_plane.grants.client import BillingClient, GrantClient
from cortex_plane.groups.client import GroupClient
from cortex_plane.jobs.client import JobClient, RunClient
from cortex_plane.people.client import AccessClient, CostClient, PeopleClient, RetentionClient, TenantClient
from cortex_plane.queues.client import GateClient, QueueClient
from cortex_plane.remote import Server
from cortex_plane.schedules.client import ScheduleClient
from cortex_plane.server_urls import NeedsDatabase, checked_server
from cortex_plane.sync import SyncPlane
from cortex_plane.templates.client import TemplateClient
from cortex_plane.webhooks.client import WebhookClient
from cortex_plane.worker.client import WorkerClient

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.jobs.fields import Submission, SubmitOptions
    from cortex_plane.jobs.handle import JobHandle


class Client:
    """A plane behind a server, with the same services as `Plane`.

        async with Client("https://plane.example.com", key) as client:
            job = await client.submit("release-bot", {"version": "1.4.0"})
            print(await job.result())

    Without async: `client.sync.submit(...)`. The server takes the actor from the key; `actor` is ignored. Operations that need
    the database raise NeedsDatabase.

    Args:
        url: The address of the server, with or without the path of the API.
        key: An API key: `cortex keys add NAME --role submitter`.
        tenant: The tenant to work in. Left out, the tenant of the key.
    """

    def __init__(self, url: str, key: str, tenant: str = "") -> None:
        self.server = Server(checked_server(url, "url"), key, tenant)
        self.clock = SystemClock()
        self.agents: dict[str, AgentCode] = {}
        """Empty: the code of agents is in workers."""
        self.jobs = JobClient(self)
        self.runs = RunClient(self)
        self.queues = QueueClient(self)
        self.gate = GateClient(self)
        self.workers = WorkerClient(self)
        self.checkpoints = CheckpointClient(self)
        self.approvals = ApprovalClient(self)
        self.templates = TemplateClient(self)
        self.groups = GroupClient(self)
        self.schedules = ScheduleClient(self)
        self.grants = GrantClient(self)
        self.billing = BillingClient(self)
        self.tenants = TenantClient(self)
        self.costs = CostClient(self)
        self.retention = RetentionClient(self)
        self.access = AccessClient(self)
        self.people = PeopleClient(self)
        self.webhooks = WebhookClient(self)
        self.audit = AuditClient(self)
        self.sync = SyncPlane(self)

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        """Submits a job by its agent's name. Retrying a lost response does not submit it twice."""
        return await self.jobs.submit(agent, payload, **options)

    async def submit_many(self, submissions: Iterable[Submission], *, connection: None = None) -> list[JobHandle[Any]]:
        """Submits all of the jobs or none, in this order."""
        return await self.jobs.submit_many(submissions, connection=connection)

    def job(self, job_id: str) -> JobHandle[Any]:
        """A handle for an existing job. Does not check that the job exists."""
        return self.jobs.handle(job_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self.server.close()

    @property
    def store(self) -> NoReturn:
        raise NeedsDatabase

    @property
    def directory(self) -> NoReturn:
        raise NeedsDatabase
