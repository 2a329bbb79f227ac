"""All stores of one database, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cortex_plane.agents.store import AgentStore
from cortex_plane.approvals.store import ApprovalStore
from cortex_plane.audit.store import AuditStore, SealStore
from cortex_plane.clock import Clock, instant
from cortex_plane.costs.store import CostStore
from cortex_plane.durable.store import CheckpointStore, HoldStore, SqliteCheckpoints
from cortex_plane.errors import WrongDatabase
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
from cortex_plane.storage.postgres.database import PostgresDatabase
from cortex_plane.storage.postgres.schema import PostgresSchema
from cortex_plane.storage.postgres.signals import PostgresSignals
from cortex_plane.storage.sqlite.database import SqliteDatabase
from cortex_plane.storage.sqlite.schema import SqliteSchema
from cortex_plane.templates.store import TemplateStore
from cortex_plane.webhooks.store import WebhookStore
from cortex_plane.worker.store import WorkerStore
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.storage.database import Signals
    from cortex_plane.storage.migrations import Schema


class Store(Protocol):
    """Opening creates the schema in an empty database; an older one is migrated or refused as the store documents."""

    @property
    def jobs(self) -> JobStore: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def workers(self) -> WorkerStore: ...
    @property
    def agents(self) -> AgentStore: ...
    @property
    def tenants(self) -> TenantStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def seals(self) -> SealStore: ...
    @property
    def checkpoints(self) -> CheckpointStore: ...
    @property
    def holds(self) -> HoldStore: ...
    @property
    def events(self) -> EventStore: ...
    @property
    def order(self) -> OrderStore: ...
    @property
    def reservations(self) -> ReservationStore: ...
    @property
    def controls(self) -> ControlStore: ...
    @property
    def webhooks(self) -> WebhookStore: ...
    @property
    def costs(self) -> CostStore: ...
    @property
    def retention(self) -> RetentionStore: ...
    @property
    def templates(self) -> TemplateStore: ...
    @property
    def graphs(self) -> GraphStore: ...
    @property
    def groups(self) -> GroupStore: ...
    @property
    def approvals(self) -> ApprovalStore: ...
    @property
    def erasing(self) -> ErasureStore: ...
    @property
    def people(self) -> PeopleStore: ...
    @property
    def keys(self) -> ApiKeyStore: ...
    @property
    def accounts(self) -> AccountStore: ...
    @property
    def sign_ins(self) -> SignInStore: ...
    @property
    def http(self) -> HttpStateStore: ...
    @property
    def runs(self) -> RunStore: ...
    @property
    def job_search(self) -> JobSearchStore: ...
    @property
    def stats(self) -> StatsStore: ...
    @property
    def gauges(self) -> GaugeStore: ...
    @property
    def grants(self) -> GrantStore: ...
    @property
    def requests(self) -> ExecutionRequestStore: ...
    @property
    def billing(self) -> BillingStore: ...
    @property
    def schedules(self) -> ScheduleStore: ...
    @property
    def slots(self) -> SlotStore: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def signals(self) -> Signals: ...
    @property
    def description(self) -> str:
        """What people are told about where the data is, without secrets."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


# -- store -------------------------------------------------------------------------------------
# The store on one SQLite file.


class SqliteStore:
    """Opening creates the schema, and migrates an older one: there is nobody else to ask."""

    def __init__(self, path: Path, clock: Clock, new_id: NewId) -> None:
        self._database = SqliteDatabase(path, clock)
        self.description = f"SQLite, {path}"
        self.signals = self._database.signals
        self.schema = SqliteSchema(self._database, clock)
        self.jobs = JobStore(self._database)
        self.queue = SqliteQueue(self._database)
        self.workers = WorkerStore(self._database)
        self.agents = AgentStore(self._database)
        self.tenants = TenantStore(self._database)
        self.audit = AuditStore(self._database, instant)
        self.seals = SealStore(self._database)
        self.checkpoints = SqliteCheckpoints(self._database)
        self.holds = HoldStore(self._database)
        self.events = EventStore(self._database)
        self.controls = ControlStore(self._database)
        self.costs = CostStore(self._database)
        self.retention = RetentionStore(self._database, instant, most_at_once=700)  # Every other writer waits for a deletion.
        self.order = OrderStore(self._database)
        self.reservations = ReservationStore(self._database)
        self.templates = TemplateStore(self._database)
        self.groups = GroupStore(self._database)
        self.webhooks = WebhookStore(self._database)
        self.approvals = ApprovalStore(self._database, new_id)
        self.people = PeopleStore(self._database)
        self.keys = ApiKeyStore(self._database)
        self.accounts = AccountStore(self._database)
        self.sign_ins = SignInStore(self._database)
        self.http = HttpStateStore(self._database)
        self.erasing = ErasureStore(self._database)
        self.job_search = JobSearchStore(self._database, instant)
        self.runs = RunStore(self._database)
        self.stats = StatsStore(self._database)
        self.gauges = GaugeStore(self._database)
        self.graphs = GraphStore(self._database)
        self.grants = GrantStore(self._database)
        self.requests = ExecutionRequestStore(self._database)
        self.billing = BillingStore(self._database)
        self.schedules = ScheduleStore(self._database)
        self.slots = SlotStore(self._database)

    async def open(self, *, prepare: bool = True) -> None:
        await in_a_thread(self._database.open)
        if prepare:
            try:
                await self.schema.upgrade()
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        await in_a_thread(self._database.close)


# -- store -------------------------------------------------------------------------------------
# The store on PostgreSQL, in the schema `cortex`.


class PostgresStore:
    """Opening creates the schema in an empty database; an older one is refused, because other programs may depend on it."""

    def __init__(self, url: str, new_id: NewId) -> None:
        self._database = PostgresDatabase(url)
        self.description = self._database.where
        self.signals = PostgresSignals(self._database)
        self.schema = PostgresSchema(self._database)
        self.jobs = JobStore(self._database)
        self.queue = PostgresQueue(self._database, self.signals.wake_all)
        self.workers = WorkerStore(self._database)
        self.agents = AgentStore(self._database)
        self.tenants = TenantStore(self._database)
        self.audit = AuditStore(self._database, lambda moment: moment)
        self.seals = SealStore(self._database)
        self.checkpoints = CheckpointStore(self._database)
        self.holds = HoldStore(self._database)
        self.events = EventStore(self._database)
        self.controls = ControlStore(self._database)
        self.costs = CostStore(self._database)
        self.retention = RetentionStore(self._database, lambda moment: moment, most_at_once=3_000)
        self.order = OrderStore(self._database)
        self.reservations = ReservationStore(self._database)
        self.templates = TemplateStore(self._database)
        self.groups = GroupStore(self._database)
        self.webhooks = WebhookStore(self._database)
        self.approvals = ApprovalStore(self._database, new_id)
        self.people = PeopleStore(self._database)
        self.keys = ApiKeyStore(self._database)
        self.accounts = AccountStore(self._database)
        self.sign_ins = SignInStore(self._database)
        self.http = HttpStateStore(self._database)
        self.erasing = ErasureStore(self._database)
        self.job_search = JobSearchStore(self._database, lambda moment: moment)
        self.runs = RunStore(self._database)
        self.stats = StatsStore(self._database)
        self.gauges = GaugeStore(self._database)
        self.graphs = GraphStore(self._database)
        self.grants = GrantStore(self._database)
        self.requests = ExecutionRequestStore(self._database)
        self.billing = BillingStore(self._database)
        self.schedules = ScheduleStore(self._database)
        self.slots = SlotStore(self._database)

    async def open(self, *, prepare: bool = True) -> None:
        if prepare:
            await self._prepare_schema()
        await self._database.open(prepare_statements=await self.signals.probe())

    async def close(self) -> None:
        self.queue.close()
        try:
            await self.signals.close()
        finally:
            await self._database.close()

    async def _prepare_schema(self) -> None:
        status = await self.schema.status()
        if status.current == 0:
            await self.schema.upgrade()
        elif status.pending:
            raise WrongDatabase(
                f"{self.description} has schema version {status.current}, this program needs {status.latest}. "
                "Run: cortex db upgrade"
            )
