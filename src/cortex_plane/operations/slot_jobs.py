"""The jobs that look after slots: of the plane's own agent, in its own queue, one for each slot."""

from __future__ import annotations

from datetime import datetime

from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.errors import UnknownAgent
from cortex_plane.core.instants import instant
from cortex_plane.core.jobs import INTERNAL_QUEUE, AgentId, JobId, NewJob
from cortex_plane.core.schedules import SLOT_AGENT, SLOT_CONFIG, Schedule, SlotOrigin, slot_id, slot_key, slot_time
from cortex_plane.core.slots import due_at
from cortex_plane.core.traces import trace_from
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.json_text import encode
from cortex_plane.ports.schedules import MakeJob
from cortex_plane.ports.store import Store


async def slot_jobs(store: Store, directory: Directory, new_id: NewId) -> MakeJob:
    """How slots become jobs. Their agent is announced if nobody has done so: schedules may come before the first worker."""
    agent_id = await _agent(store, directory, new_id)

    def make(schedule: Schedule, at: datetime, origin: SlotOrigin) -> NewJob:
        return NewJob(
            id=JobId(new_id()),
            tenant_id=schedule.tenant_id,
            agent_id=agent_id,
            job_type=SLOT_AGENT,
            queue=INTERNAL_QUEUE,
            payload=encode({"schedule_id": schedule.id, "scheduled_for": slot_time(at), "origin": origin}),
            max_retries=SLOT_CONFIG.retry.max_retries,
            run_at=instant(due_at(schedule, at)) if origin == "cron" else None,
            job_key=slot_key(schedule.id, at),
            serial_key=schedule.id if schedule.terms.overlap == "forbid" else None,
            created_by=SLOT_AGENT,
            schedule_id=schedule.id,
            trace_id=trace_from(slot_id(schedule.id, at)),
        )

    return make


async def _agent(store: Store, directory: Directory, new_id: NewId) -> AgentId:
    try:
        return (await directory.agent(SLOT_AGENT)).id
    except UnknownAgent:
        await store.agents.register([AgentRecord(AgentId(new_id()), SLOT_AGENT, SLOT_CONFIG)])
        return (await directory.agent(SLOT_AGENT)).id
