"""Looks at how a plane does: how much, how fast, what fails, what waits in a queue."""

from __future__ import annotations

from datetime import timedelta
from heapq import merge

from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.stats import WINDOW, Entry, FailingAgent, Load, failing_agents, load_of
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store

MOST_CHANGES = 9_000
"""Lines of history: about three thousand jobs."""
MOST_FAILURES = 500
SUBMITTED_WITHIN = timedelta(days=7)
"""A failure of the last hour is found if its job is not older than this."""


async def look_at_load(store: Store, clock: Clock, tenant_id: TenantId | None = None) -> Load:
    """Of one tenant, or of all."""
    now = as_datetime(clock.now())
    jobs, complete = await store.stats.recent(now - WINDOW, MOST_CHANGES)
    return load_of([job for job in jobs if tenant_id in (None, job.tenant_id)], now, complete=complete)


async def look_at_failures(store: Store, clock: Clock, tenant_id: TenantId | None = None) -> list[FailingAgent]:
    """Of the last hour, by agent."""
    now = as_datetime(clock.now())
    found = await store.stats.failures(now - SUBMITTED_WITHIN, MOST_FAILURES)
    recent = [one for one in found if one.ended_at >= now - WINDOW and tenant_id in (None, one.tenant_id)]
    return failing_agents(recent)


async def look_into_queue(store: Store, queue: str, limit: int) -> list[Entry]:
    """What would be claimed next, in order, if nothing stood in its way."""
    agents = [agent.job_type for agent in await store.agents.list()]
    found = [await store.stats.entries(queue, agent, limit) for agent in agents]
    return list(merge(*found, key=lambda entry: entry.place))[:limit]
