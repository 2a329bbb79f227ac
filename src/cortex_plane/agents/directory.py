"""A cache of agents and tenants: neither is ever deleted, so cached answers stay valid.

Which of them have budgets changes, so that is remembered for a second: a budget that another program sets or removes is known
here a second later. How much is spent of it is not remembered at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cortex_plane.agents.model import AgentRecord
from cortex_plane.errors import TenantNotFound, UnknownAgent
from cortex_plane.ids import NewId, new_id
from cortex_plane.jobs.model import DEFAULT_TENANT, DEFAULT_TENANT_ID, INTERNAL_PREFIX, AgentId, TenantId
from cortex_plane.json_schema import JsonSchema

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.queues.model import Scope
    from cortex_plane.stores import Store

BUDGETS_REMEMBERED_SECONDS = 1.0


class Directory:
    def __init__(self, store: Store, codes: Mapping[str, AgentCode] | None = None, new_id: NewId = new_id) -> None:
        """`codes` are the agents of this program. They are written to the store before one of them is first looked up."""
        self._store = store
        self._codes = codes if codes is not None else {}
        self._new_id = new_id
        self._registered: set[str] = set()
        self._agents: dict[str, AgentRecord] = {}
        self._tenants: dict[str, TenantId] = {DEFAULT_TENANT: DEFAULT_TENANT_ID}
        self._schemas: dict[str, tuple[dict[str, Any], JsonSchema]] = {}
        self._refusing: frozenset[tuple[Scope, str]] = frozenset()
        self._refusing_until = float("-inf")

    async def register(self, codes: Mapping[str, AgentCode] | None = None) -> None:
        """Writes the definitions of agents to the store, once each: those of this program, or the given ones."""
        missing = [code for name, code in (self._codes if codes is None else codes).items() if name not in self._registered]
        if missing:
            await self._store.agents.register(
                [AgentRecord(AgentId(self._new_id()), code.job_type, code.described()) for code in missing]
            )
            await self.refresh()
            self._registered.update(code.job_type for code in missing)

    async def agent(self, job_type: str) -> AgentRecord:
        if job_type not in self._agents or job_type not in self._registered:
            await self.register()
        if job_type not in self._agents:
            await self.refresh()
        if job_type not in self._agents:
            raise UnknownAgent(job_type, self.known_agents())
        return self._agents[job_type]

    async def agents(self) -> list[AgentRecord]:
        """All registered agents, including the plane's own and those of other programs."""
        await self.register()
        return await self._store.agents.list()

    def forget_tenant(self, name: str) -> None:
        self._tenants.pop(name, None)

    def known_agents(self) -> list[str]:
        """Without the plane's own agents."""
        return [name for name in self._agents if not name.startswith(INTERNAL_PREFIX)]

    async def refresh(self) -> None:
        self._agents = {agent.job_type: agent for agent in await self._store.agents.list()}

    def schema_of(self, agent: AgentRecord) -> JsonSchema:
        """Of its arguments. Made once for each version of the agent."""
        asked = agent.config.parameters or {}
        made = self._schemas.get(agent.job_type)
        if made is None or made[0] != asked:
            # Required arguments were checked by name already; those that are added later are missing here.
            optional = {key: value for key, value in asked.items() if key != "required"}
            made = self._schemas[agent.job_type] = asked, JsonSchema(optional)
        return made[1]

    async def tenant(self, name: str) -> TenantId:
        if name not in self._tenants:
            found = await self._store.tenants.find(name)
            if found is None:
                raise TenantNotFound(name)
            self._tenants[name] = found
        return self._tenants[name]

    async def refusing(self) -> frozenset[tuple[Scope, str]]:
        """The agents (by name) and tenants (by id) with a budget that refuses jobs once it is used up."""
        now = asyncio.get_running_loop().time()
        if now >= self._refusing_until:
            controls = await self._store.controls.list()
            self._refusing = frozenset((control.scope, control.name) for control in controls if control.on_exhausted == "refuse")
            self._refusing_until = now + BUDGETS_REMEMBERED_SECONDS
        return self._refusing

    def forget_budgets(self) -> None:
        """One was changed here: it holds at once."""
        self._refusing_until = float("-inf")
