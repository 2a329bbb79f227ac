"""Who and what: agents, tenants, and the audit of what was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.jobs import TenantId
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.json_text import dumps, loads


class SqlAgents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, agents: Sequence[AgentRecord]) -> None:
        batch = [{"id": a.id, "job_type": a.job_type, "skill_config": a.config.to_json()} for a in agents]
        await self._database.write("agents/register", agents=dumps(batch))

    async def list(self) -> list[AgentRecord]:
        return [rows.agent(row) for row in await self._database.read("agents/list")]


class SqlTenants:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, name: str) -> TenantId | None:
        found = await self._database.read("tenants/find", name=name)
        return TenantId(str(found[0]["id"])) if found else None

    async def add(self, tenant_id: TenantId, name: str) -> None:
        await self._database.write("tenants/add", id=tenant_id, name=name)


class SqlAudit:
    def __init__(self, database: Database, new_id: NewId) -> None:
        self._database = database
        self._new_id = new_id

    async def record(self, action: str, objects: Sequence[tuple[str, str, dict[str, Any]]], actor: str | None) -> None:
        entries = [
            {
                "id": self._new_id(),
                "actor": actor,
                "action": action,
                "object_type": kind,
                "object_id": object_id,
                "details": details,
            }
            for kind, object_id, details in objects
        ]
        await self._database.write("audit/record", entries=dumps(entries))

    async def list(self, object_id: str) -> list[dict[str, Any]]:
        return [
            {
                "at": rows.moment(row["at"]),
                "actor": row["actor"],
                "action": row["action"],
                "details": None if row["details"] is None else loads(row["details"]),
            }
            for row in await self._database.read("audit/list", object_id=object_id)
        ]
