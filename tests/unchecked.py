"""Submits what an agent does not take, as a program with older code, or a statement in SQL, would."""

from __future__ import annotations

from typing import Any

from cortex_plane import Context, JobHandle, Plane
from cortex_plane.agents.code import AgentCode


async def submit_unchecked(plane: Plane, agent: str, payload: dict[str, Any]) -> JobHandle[Any]:
    async def anything(ctx: Context, **arguments: Any) -> None: ...

    older = Plane(settings=plane.settings, clock=plane.clock)
    older.agents[agent] = AgentCode(agent, anything, "async", plane.agents[agent].config)
    async with older:
        job = await older.submit(agent, payload)
    return plane.job(job.id)
