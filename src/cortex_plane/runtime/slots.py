"""Looks after one slot of a schedule: validates its grant, has it executed, and writes down how that ended.

It knows nothing of what it starts. Everything that it must remember stands in `schedule_run`, so it may die anywhere and
begin again: the slot begins once, its run is started once by the same key, and it ends once. Between looks it sleeps without
a worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.grants import GrantRefused, problem_with
from cortex_plane.core.instants import SECOND, Instant, as_datetime, instant
from cortex_plane.core.jobs import JobId
from cortex_plane.core.schedules import (
    SERVICE_NAME,
    SLOT_AGENT,
    SLOT_CONFIG,
    Schedule,
    ScheduleId,
    Slot,
    SlotOrigin,
    SlotStatus,
    slot_key,
    slot_time,
)
from cortex_plane.core.slots import Begun
from cortex_plane.core.traces import trace_from, traceparent_of
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.slot_jobs import slot_jobs
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.execution import ExecutionRefused, ExecutionService
from cortex_plane.ports.store import Store
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.durable.suspending import SleepUntil

SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
SHARE = 0.1
"""A run's end is noticed late by no more than this part of its length."""


def slot_agent(store: Store, directory: Directory, execution: ExecutionService, clock: Clock, new_id: NewId) -> AgentCode:
    runner = SlotRunner(store, directory, execution, clock, new_id)

    async def look_after(ctx: Context, schedule_id: str, scheduled_for: str, origin: SlotOrigin) -> dict[str, str]:
        return await runner.look_after(ctx.job_id, ScheduleId(schedule_id), datetime.fromisoformat(scheduled_for), origin)

    return AgentCode(SLOT_AGENT, look_after, "async", SLOT_CONFIG)


@dataclass(frozen=True, slots=True)
class SlotRunner:
    store: Store
    directory: Directory
    execution: ExecutionService
    clock: Clock
    new_id: NewId

    async def look_after(self, job_id: JobId, schedule_id: ScheduleId, at: datetime, origin: SlotOrigin) -> dict[str, str]:
        make_job = await slot_jobs(self.store, self.directory, self.new_id)
        begun = await self.store.slots.begin(schedule_id, at, origin, job_id, make_job)
        match begun.what:
            case "superseded":
                return {"slot": "superseded"}
            case "wait":
                raise self._sleep(at)
            case "ended":
                return await self._leave(_slot(begun))
            case "run":
                return await self._run(begun, _slot(begun))

    async def _run(self, begun: Begun, slot: Slot) -> dict[str, str]:
        assert begun.schedule is not None
        try:
            for other in begun.replaced:
                await self._stop(other, f"the slot of {slot_time(slot.scheduled_for)} took its place")
            run_id = slot.run_id or await self._start(begun.schedule, slot)
            if run_id is None:
                return {"slot": "ended meanwhile"}
            state = await self.execution.look(run_id)
        except (ExecutionRefused, GrantRefused) as refused:
            return await self._end(slot, refused.code, str(refused))
        if not state.ended:
            raise self._sleep(slot.started_at or slot.scheduled_for)
        return await self._end(slot, state.error_code, state.error_message)

    async def _start(self, schedule: Schedule, slot: Slot) -> JobId | None:
        await self._validate(schedule)
        started = await self.execution.start(
            schedule.terms.graph_id,
            slot_key(schedule.id, slot.scheduled_for),
            schedule.grant_id,
            schedule.terms.input,
            SERVICE_NAME,
            traceparent_of(slot.trace_id or trace_from(slot.id)),
        )
        if await self.store.slots.note_run(slot.id, started.run_id, started.trace_id):
            return started.run_id
        await self.execution.stop(started.run_id, "its slot ended while it was started")
        return None

    async def _validate(self, schedule: Schedule) -> None:
        """Whether all its uses are spent is left to the service: perhaps one of them was this very slot's."""
        grant = await self.store.grants.get(schedule.grant_id)
        assert grant is not None
        problem = problem_with(grant, as_datetime(self.clock.now()), schedule.terms.graph_id)
        if problem is not None and problem.code != "grant_used_up":
            raise problem

    async def _end(self, slot: Slot, error_code: str | None, error_message: str | None) -> dict[str, str]:
        status: SlotStatus = "success" if error_code is None else "error"
        make_job = await slot_jobs(self.store, self.directory, self.new_id)
        await self.store.slots.end(slot.id, status, error_code, error_message, make_job)
        return {"slot": status}

    async def _leave(self, slot: Slot) -> dict[str, str]:
        if slot.error_code == "replaced":
            await self._stop(slot, "another slot took its place")
        return {"slot": slot.status}

    async def _stop(self, slot: Slot, reason: str) -> None:
        if slot.run_id is not None:
            await self.execution.stop(slot.run_id, reason)

    def _sleep(self, since: datetime) -> SleepUntil:
        """The longer it takes already, the longer until the next look."""
        now = self.clock.now()
        waited = max(0.0, (now - instant(since)) / SECOND)
        pause = min(max(SHARE * waited, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        return SleepUntil(Instant(now + round(pause * SECOND)))


def _slot(begun: Begun) -> Slot:
    assert begun.slot is not None
    return begun.slot
