"""Moves a group on after one of its members has ended."""

from __future__ import annotations

from cortex_plane.core.groups import GROUP_AGENT, GROUP_AGENT_CONFIG, GroupId
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.context import Context


def group_agent(store: Store, new_id: NewId) -> AgentCode:
    async def advance(ctx: Context, group_id: str) -> None:
        await store.groups.advance(GroupId(group_id), new_id)

    return AgentCode(GROUP_AGENT, advance, "async", GROUP_AGENT_CONFIG)
