"""Moves a group on after one of its members has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.agents.code import AgentCode
from cortex_plane.groups.model import GROUP_AGENT, GROUP_AGENT_CONFIG, GroupId

if TYPE_CHECKING:
    from cortex_plane.durable.context import Context
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store


def group_agent(store: Store, new_id: NewId) -> AgentCode:
    async def advance(ctx: Context, group_id: str) -> None:
        await store.groups.advance(GroupId(group_id), new_id)

    return AgentCode(GROUP_AGENT, advance, "async", GROUP_AGENT_CONFIG)
