"""Cancels the children of a job that failed or was cancelled, where they were to end with it."""

from __future__ import annotations

from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.jobs import INTERNAL_QUEUE, JobId
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.ports.store import Store
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.context import Context

CHILDREN_AGENT = "cortex.children"
CHILDREN_AGENT_CONFIG = AgentConfig(queue=INTERNAL_QUEUE, retry=RetryPolicy(max_retries=100))


def children_agent(store: Store) -> AgentCode:
    async def end_children(ctx: Context, parent_id: str) -> int:
        return await store.jobs.cancel_children(JobId(parent_id), f"job:{parent_id}", "its parent has ended")

    return AgentCode(CHILDREN_AGENT, end_children, "async", CHILDREN_AGENT_CONFIG)
