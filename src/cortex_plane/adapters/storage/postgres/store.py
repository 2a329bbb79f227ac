"""The store on PostgreSQL, in the schema `cortex`."""

from __future__ import annotations

from cortex_plane.adapters.storage.access import SqlAccounts, SqlApiKeys, SqlSignIns
from cortex_plane.adapters.storage.approvals import SqlApprovals
from cortex_plane.adapters.storage.audit import SqlAudit, SqlAuditSeals
from cortex_plane.adapters.storage.checkpoints import SqlCheckpoints
from cortex_plane.adapters.storage.controls import SqlControls
from cortex_plane.adapters.storage.costs import SqlCosts
from cortex_plane.adapters.storage.events import SqlEvents
from cortex_plane.adapters.storage.gauges import SqlGauges
from cortex_plane.adapters.storage.grants import SqlGrants
from cortex_plane.adapters.storage.graphs import SqlGraphs
from cortex_plane.adapters.storage.groups import SqlGroups
from cortex_plane.adapters.storage.http_state import SqlHttpState
from cortex_plane.adapters.storage.job_search import SqlJobSearch
from cortex_plane.adapters.storage.jobs import SqlJobs
from cortex_plane.adapters.storage.order import SqlOrder
from cortex_plane.adapters.storage.people import SqlPeople
from cortex_plane.adapters.storage.postgres.database import PostgresDatabase
from cortex_plane.adapters.storage.postgres.schema import PostgresSchema
from cortex_plane.adapters.storage.postgres.signals import PostgresSignals
from cortex_plane.adapters.storage.queue import SqlQueue
from cortex_plane.adapters.storage.registry import SqlAgents, SqlTenants
from cortex_plane.adapters.storage.requests import SqlBilling, SqlRequests
from cortex_plane.adapters.storage.reservations import SqlReservations
from cortex_plane.adapters.storage.retention import SqlRetention
from cortex_plane.adapters.storage.runs import SqlRuns
from cortex_plane.adapters.storage.schedules import SqlSchedules
from cortex_plane.adapters.storage.slots import SqlSlots
from cortex_plane.adapters.storage.stats import SqlStats
from cortex_plane.adapters.storage.templates import SqlTemplates
from cortex_plane.adapters.storage.webhooks import SqlWebhooks
from cortex_plane.adapters.storage.workers import SqlWorkers
from cortex_plane.core.errors import WrongDatabase
from cortex_plane.ports.clock import NewId


class PostgresStore:
    """Opening creates the schema in an empty database; an older one is refused, because other programs may depend on it."""

    def __init__(self, url: str, new_id: NewId) -> None:
        self._database = PostgresDatabase(url)
        self.description = self._database.where
        self.signals = PostgresSignals(self._database)
        self.schema = PostgresSchema(self._database)
        self.jobs = SqlJobs(self._database)
        self.queue = SqlQueue(self._database)
        self.workers = SqlWorkers(self._database)
        self.agents = SqlAgents(self._database)
        self.tenants = SqlTenants(self._database)
        self.audit = SqlAudit(self._database, lambda moment: moment)
        self.seals = SqlAuditSeals(self._database)
        self.checkpoints = SqlCheckpoints(self._database)
        self.events = SqlEvents(self._database)
        self.controls = SqlControls(self._database)
        self.costs = SqlCosts(self._database)
        self.retention = SqlRetention(self._database)
        self.order = SqlOrder(self._database)
        self.reservations = SqlReservations(self._database)
        self.templates = SqlTemplates(self._database)
        self.groups = SqlGroups(self._database)
        self.webhooks = SqlWebhooks(self._database)
        self.approvals = SqlApprovals(self._database, new_id)
        self.people = SqlPeople(self._database)
        self.keys = SqlApiKeys(self._database)
        self.accounts = SqlAccounts(self._database)
        self.sign_ins = SqlSignIns(self._database)
        self.http = SqlHttpState(self._database)
        self.job_search = SqlJobSearch(self._database, lambda moment: moment)
        self.runs = SqlRuns(self._database)
        self.stats = SqlStats(self._database)
        self.gauges = SqlGauges(self._database)
        self.graphs = SqlGraphs(self._database)
        self.grants = SqlGrants(self._database)
        self.requests = SqlRequests(self._database)
        self.billing = SqlBilling(self._database)
        self.schedules = SqlSchedules(self._database)
        self.slots = SqlSlots(self._database)

    async def open(self, *, prepare: bool = True) -> None:
        if prepare:
            await self._prepare_schema()
        await self._database.open(prepare_statements=await self.signals.probe())

    async def close(self) -> None:
        await self.signals.close()
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
