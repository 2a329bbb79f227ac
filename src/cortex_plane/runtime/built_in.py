"""The plane's own agents, which every worker has: they do in jobs of their own what must not be lost or done in a hurry."""

from __future__ import annotations

from collections.abc import Mapping

from cortex_plane.operations.directory import Directory
from cortex_plane.ports.channels import Channel
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.execution import ExecutionService
from cortex_plane.ports.http import Http
from cortex_plane.ports.store import Store
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.children import children_agent
from cortex_plane.runtime.groups import group_agent
from cortex_plane.runtime.notifications import notify_agent
from cortex_plane.runtime.slots import slot_agent
from cortex_plane.runtime.webhooks import webhook_agent


def built_in_agents(
    store: Store,
    directory: Directory,
    new_id: NewId,
    clock: Clock,
    http: Http,
    execution: ExecutionService,
    channels: Mapping[str, Channel],
    public_url: str,
) -> dict[str, AgentCode]:
    codes = (
        group_agent(store, new_id),
        webhook_agent(store, http, clock),
        children_agent(store),
        slot_agent(store, directory, execution, clock, new_id),
        notify_agent(store, channels, public_url),
    )
    return {code.job_type: code for code in codes}
