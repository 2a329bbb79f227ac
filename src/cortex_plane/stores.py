"""The stores of all nouns on one database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.agents.store import AgentStore
from cortex_plane.approvals.store import ApprovalStore
from cortex_plane.audit.store import AuditStore, SealStore
from cortex_plane.costs.store import CostStore
from cortex_plane.durable.store import CheckpointStore, HoldStore, SqliteCheckpoints
from cortex_plane.grants.store import BillingStore, ExecutionRequestStore, GrantStore
from cortex_plane.graphs.store import GraphStore
from cortex_plane.groups.store import GroupStore
from cortex_plane.jobs.queue_store import PostgresQueue, Queue, SqliteQueue
from cortex_plane.jobs.runs import RunStore
from cortex_plane.jobs.search import JobSearchStore
from cortex_plane.jobs.store import EventStore, JobStore
from cortex_plane.metrics.store import GaugeStore, StatsStore
from cortex_plane.people.access_store import AccountStore, ApiKeyStore, SignInStore
from cortex_plane.people.erasing import ErasureStore
from cortex_plane.people.store import PeopleStore, TenantStore
from cortex_plane.queues.reservations import ReservationStore
from cortex_plane.queues.store import ControlStore, OrderStore
from cortex_plane.retention.store import RetentionStore
from cortex_plane.schedules.slot_store import SlotStore
from cortex_plane.schedules.store import ScheduleStore
from cortex_plane.storage.http_state import HttpStateStore
from cortex_plane.templates.store import TemplateStore
from cortex_plane.webhooks.store import WebhookStore
from cortex_plane.worker.store import WorkerStore

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.storage.database import Database, Signals
    from cortex_plane.storage.migrations import Schema


class Store:
    """The stores of one database. They connect on first use, once in each event loop."""

    def __init__(self, database: Database, new_id: NewId) -> None:
        self.database = database
        self.description = database.description
        on_sqlite = database.dialect == "sqlite"
        self.jobs = JobStore(database)
        self.queue: Queue = SqliteQueue(database) if on_sqlite else PostgresQueue(database)
        self.workers = WorkerStore(database)
        self.agents = AgentStore(database)
        self.tenants = TenantStore(database)
        self.audit = AuditStore(database)
        self.seals = SealStore(database)
        self.checkpoints = SqliteCheckpoints(database) if on_sqlite else CheckpointStore(database)
        self.holds = HoldStore(database)
        self.events = EventStore(database)
        self.controls = ControlStore(database)
        self.costs = CostStore(database)
        self.retention = RetentionStore(database)
        self.order = OrderStore(database)
        self.reservations = ReservationStore(database)
        self.templates = TemplateStore(database)
        self.groups = GroupStore(database)
        self.webhooks = WebhookStore(database)
        self.approvals = ApprovalStore(database, new_id)
        self.people = PeopleStore(database)
        self.keys = ApiKeyStore(database)
        self.accounts = AccountStore(database)
        self.sign_ins = SignInStore(database)
        self.http = HttpStateStore(database)
        self.erasing = ErasureStore(database)
        self.job_search = JobSearchStore(database)
        self.runs = RunStore(database)
        self.stats = StatsStore(database)
        self.gauges = GaugeStore(database)
        self.graphs = GraphStore(database)
        self.grants = GrantStore(database)
        self.requests = ExecutionRequestStore(database)
        self.billing = BillingStore(database)
        self.schedules = ScheduleStore(database)
        self.slots = SlotStore(database)

    @property
    def schema(self) -> Schema:
        return self.database.schema

    @property
    def signals(self) -> Signals:
        return self.database.signals

    async def open(self, *, prepare: bool = True) -> None:
        """Connects in this event loop. Creates the schema in an empty database, unless `prepare` is False."""
        await self.database.open(prepare=prepare)

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        await self.database.close()
