"""What agents and tenants there are, remembered: neither is ever deleted, so an answer stays true."""

from __future__ import annotations

from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.errors import TenantNotFound, UnknownAgent
from cortex_plane.core.jobs import DEFAULT_TENANT, DEFAULT_TENANT_ID, TenantId
from cortex_plane.ports.store import Store


class Directory:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._agents: dict[str, AgentRecord] = {}
        self._tenants: dict[str, TenantId] = {DEFAULT_TENANT: DEFAULT_TENANT_ID}

    async def agent(self, job_type: str) -> AgentRecord:
        if job_type not in self._agents:
            await self.refresh()
        if job_type not in self._agents:
            raise UnknownAgent(job_type, self._agents)
        return self._agents[job_type]

    async def refresh(self) -> None:
        self._agents = {agent.job_type: agent for agent in await self._store.agents.list()}

    async def tenant(self, name: str) -> TenantId:
        if name not in self._tenants:
            found = await self._store.tenants.find(name)
            if found is None:
                raise TenantNotFound(name)
            self._tenants[name] = found
        return self._tenants[name]
