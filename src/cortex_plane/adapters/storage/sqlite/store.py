"""The store on one SQLite file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cortex_plane.adapters.storage.jobs import SqlJobs
from cortex_plane.adapters.storage.queue import SqlQueue
from cortex_plane.adapters.storage.registry import SqlAgents, SqlAudit, SqlTenants
from cortex_plane.adapters.storage.sqlite.database import SqliteDatabase
from cortex_plane.adapters.storage.sqlite.schema import SqliteSchema
from cortex_plane.adapters.storage.workers import SqlWorkers
from cortex_plane.ports.clock import Clock, NewId


class SqliteStore:
    """Opening creates the schema, and migrates an older one: there is nobody else to ask."""

    def __init__(self, path: Path, clock: Clock, new_id: NewId) -> None:
        self._database = SqliteDatabase(path, clock)
        self.description = f"SQLite, {path}"
        self.signals = self._database.signals
        self.schema = SqliteSchema(self._database, clock)
        self.jobs = SqlJobs(self._database)
        self.queue = SqlQueue(self._database)
        self.workers = SqlWorkers(self._database)
        self.agents = SqlAgents(self._database)
        self.tenants = SqlTenants(self._database)
        self.audit = SqlAudit(self._database, new_id)

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
