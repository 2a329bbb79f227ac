"""Stores the registered agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.json import dumps
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.agents.model import AgentRecord
    from cortex_plane.storage.database import Database


class AgentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, agents: Sequence[AgentRecord]) -> None:
        await self._database.transact(lambda: _register(self._database, agents))

    async def list(self) -> list[AgentRecord]:
        return [rows.agent(row) for row in await self._database.read("agents/list")]


def _register(database: Database, agents: Sequence[AgentRecord]) -> Transaction[None]:
    batch = [{"id": a.id, "job_type": a.job_type, "skill_config": a.config.to_json()} for a in agents]
    yield from query("agents/register", agents=dumps(batch))
    limits = [{"job_type": a.job_type, "max_concurrency": a.config.max_concurrency} for a in agents if a.config.max_concurrency]
    if limits:
        yield from query("agents/declare_limits", limits=dumps(limits))
    unlimited = [a.job_type for a in agents if not a.config.max_concurrency]
    yield from query("agents/withdraw_limits", job_types=database.array(unlimited))
