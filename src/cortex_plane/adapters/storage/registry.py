"""Who and what: agents and tenants."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.tenants import Tenant
from cortex_plane.ports.json_text import dumps


class SqlAgents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, agents: Sequence[AgentRecord]) -> None:
        await self._database.transact(lambda: _register(self._database, agents))

    async def list(self) -> list[AgentRecord]:
        return [rows.agent(row) for row in await self._database.read("agents/list")]


def _register(database: Database, agents: Sequence[AgentRecord]) -> Script[None]:
    batch = [{"id": a.id, "job_type": a.job_type, "skill_config": a.config.to_json()} for a in agents]
    yield from ask("agents/register", agents=dumps(batch))
    limits = [{"job_type": a.job_type, "max_concurrency": a.config.max_concurrency} for a in agents if a.config.max_concurrency]
    if limits:
        yield from ask("agents/declare_limits", limits=dumps(limits))
    unlimited = [a.job_type for a in agents if not a.config.max_concurrency]
    yield from ask("agents/withdraw_limits", job_types=database.array(unlimited))


class SqlTenants:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, name: str) -> TenantId | None:
        found = await self._database.read("tenants/find", name=name)
        return TenantId(str(found[0]["id"])) if found else None

    async def add(self, tenant_id: TenantId, name: str, entry: AuditEntry | None = None) -> None:
        await self._database.transact(lambda: _add_tenant(tenant_id, name, entry))

    async def list(self) -> list[Tenant]:
        found = await self._database.read("tenants/list")
        return [Tenant(TenantId(str(row["id"])), row["name"], rows.moment(row["created_at"])) for row in found]

    async def count_jobs(self, tenant_id: TenantId) -> tuple[int, dict[str, int]]:
        [running] = await self._database.read("tenants/count_running", tenant_id=tenant_id)
        waiting = await self._database.read("tenants/count_waiting", tenant_id=tenant_id)
        return running["jobs"], {row["state"]: row["jobs"] for row in waiting}


def _add_tenant(tenant_id: TenantId, name: str, entry: AuditEntry | None) -> Script[None]:
    added = yield from ask("tenants/add", id=tenant_id, name=name)
    if added and entry is not None:
        yield from ask("audit/record", entries=dumps([entry.to_json()]))
