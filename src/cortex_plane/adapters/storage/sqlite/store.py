"""The store on one SQLite file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cortex_plane.adapters.storage.access import SqlAccounts, SqlApiKeys, SqlSignIns
from cortex_plane.adapters.storage.approvals import SqlApprovals
from cortex_plane.adapters.storage.audit import SqlAudit, SqlAuditSeals
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
from cortex_plane.adapters.storage.registry import SqlAgents, SqlTenants
from cortex_plane.adapters.storage.requests import SqlBilling, SqlRequests
from cortex_plane.adapters.storage.reservations import SqlReservations
from cortex_plane.adapters.storage.retention import SqlRetention
from cortex_plane.adapters.storage.runs import SqlRuns
from cortex_plane.adapters.storage.schedules import SqlSchedules
from cortex_plane.adapters.storage.slots import SqlSlots
from cortex_plane.adapters.storage.sqlite.checkpoints import SqliteCheckpoints
from cortex_plane.adapters.storage.sqlite.database import SqliteDatabase
from cortex_plane.adapters.storage.sqlite.queue import SqliteQueue
from cortex_plane.adapters.storage.sqlite.schema import SqliteSchema
from cortex_plane.adapters.storage.stats import SqlStats
from cortex_plane.adapters.storage.templates import SqlTemplates
from cortex_plane.adapters.storage.webhooks import SqlWebhooks
from cortex_plane.adapters.storage.workers import SqlWorkers
from cortex_plane.core.instants import instant
from cortex_plane.ports.clock import Clock, NewId


class SqliteStore:
    """Opening creates the schema, and migrates an older one: there is nobody else to ask."""

    def __init__(self, path: Path, clock: Clock, new_id: NewId) -> None:
        self._database = SqliteDatabase(path, clock)
        self.description = f"SQLite, {path}"
        self.signals = self._database.signals
        self.schema = SqliteSchema(self._database, clock)
        self.jobs = SqlJobs(self._database)
        self.queue = SqliteQueue(self._database)
        self.workers = SqlWorkers(self._database)
        self.agents = SqlAgents(self._database)
        self.tenants = SqlTenants(self._database)
        self.audit = SqlAudit(self._database, instant)
        self.seals = SqlAuditSeals(self._database)
        self.checkpoints = SqliteCheckpoints(self._database)
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
        self.job_search = SqlJobSearch(self._database, instant)
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
        await asyncio.to_thread(self._database.open)
        if prepare:
            try:
                await self.schema.upgrade()
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        await asyncio.to_thread(self._database.close)
