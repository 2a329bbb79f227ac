"""The plane's own agent that runs a slot; triggers and backfills."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from cortex_plane.agents.code import AgentCode
from cortex_plane.agents.directory import Directory
from cortex_plane.clock import SECOND, Clock, Instant, as_datetime, instant
from cortex_plane.durable.suspension import SleepUntil
from cortex_plane.errors import Conflict, InvalidInput, Unavailable
from cortex_plane.grants.execution_service import ExecutionRefused, ExecutionService
from cortex_plane.grants.model import GrantRefused, problem_with
from cortex_plane.ids import NewId
from cortex_plane.schedules.cron import parse, slots_between, time_zone
from cortex_plane.schedules.model import (
    SERVICE_NAME,
    SLOT_AGENT,
    SLOT_CONFIG,
    Schedule,
    ScheduleId,
    Slot,
    SlotId,
    SlotOrigin,
    SlotStatus,
    slot_key,
    slot_time,
)
from cortex_plane.schedules.slots import Begun, utc
from cortex_plane.schedules.terms import check_grant, slot_jobs
from cortex_plane.telemetry import trace_from, traceparent_of

if TYPE_CHECKING:
    from cortex_plane.durable.context import Context
    from cortex_plane.jobs.model import JobId
    from cortex_plane.stores import Store

MOST_AT_ONCE = 1000


async def trigger_schedule(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, schedule: Schedule, *, actor: str | None = None
) -> Slot:
    """A slot of this moment, also of a schedule that is paused. Under `forbid` it waits for the one that runs."""
    await check_grant(store, clock, schedule.grant_id, schedule.tenant_id, schedule.terms.graph_id)
    make_job = await slot_jobs(store, directory, new_id)
    asked = await store.slots.ask_for(schedule.id, [as_datetime(clock.now())], "manual", make_job, actor)
    if not asked:
        raise Conflict(f'Schedule "{schedule.name}" has a slot of this very moment already. Try again.')
    return asked[0]


async def backfill_schedule(
    store: Store,
    directory: Directory,
    clock: Clock,
    new_id: NewId,
    schedule: Schedule,
    start: datetime,
    end: datetime,
    *,
    actor: str | None = None,
) -> list[Slot]:
    """The slots from `start` on and before `end` that have passed and did not run; returns those that now will."""
    moments = _moments(schedule, utc(start), min(utc(end), as_datetime(clock.now())))
    await check_grant(store, clock, schedule.grant_id, schedule.tenant_id, schedule.terms.graph_id)
    make_job = await slot_jobs(store, directory, new_id)
    return await store.slots.ask_for(schedule.id, moments, "backfill", make_job, actor)


def _moments(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    if start >= end:
        raise InvalidInput("The range must begin before it ends, and lie in the past.", field="start")
    rule, zone = parse(schedule.terms.cron), time_zone(schedule.terms.timezone)
    moments = slots_between(rule, zone, start, end, MOST_AT_ONCE + 1)
    if len(moments) > MOST_AT_ONCE:
        raise InvalidInput(f"The range holds more than {MOST_AT_ONCE:,} slots. Ask for a shorter one.", field="end")
    return moments


# -- slots -------------------------------------------------------------------------------------
# Looks after one slot of a schedule: validates its grant, has it executed, and writes down how that ended.
#
# It knows nothing of what it starts. Everything that it must remember stands in `schedule_run`, so it may die anywhere and
# begin again: the slot begins once, its run is started once by the same key, and it ends once. Between looks it sleeps without
# a worker.


log = structlog.get_logger()

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
        begun = await self._begin(job_id, schedule_id, at, origin)
        match begun.what:
            case "superseded":
                return {"slot": "superseded"}
            case "wait":
                raise self._sleep(at)
            case "ended":
                return await self._leave(_slot(begun))
            case "run" | "look":  # `_begin` never returns with "look".
                return await self._run(begun, _slot(begun))

    async def _begin(self, job_id: JobId, schedule_id: ScheduleId, at: datetime, origin: SlotOrigin) -> Begun:
        make_job = await slot_jobs(self.store, self.directory, self.new_id)
        looked_at: set[SlotId] = set()
        while True:
            begun = await self.store.slots.begin(schedule_id, at, origin, job_id, make_job, looked_at)
            if begun.what != "look":
                return begun
            for other in begun.others:
                await self._end_if_run_has(other)
            looked_at |= {other.id for other in begun.others}

    async def _run(self, begun: Begun, slot: Slot) -> dict[str, str]:
        assert begun.schedule is not None
        try:
            for other in begun.others:
                await self._stop(other, f"the slot of {slot_time(slot.scheduled_for)} took its place")
            run_id = await self._run_of(slot) or await self._start(begun.schedule, slot)
            if run_id is None:
                return {"slot": "ended meanwhile"}
            state = await self.execution.look(run_id)
        except (ExecutionRefused, GrantRefused) as refused:
            if slot.run_id is None and await self._run_of(slot) is not None:  # It was started all the same.
                raise self._sleep(slot.started_at or slot.scheduled_for) from None
            return await self._end(slot, refused.code, str(refused))
        except Unavailable as error:  # However long the service is away, the slot waits for it: its run may go on meanwhile.
            raise self._away(slot, error) from None
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
            schedule_id=schedule.id,
            requested_by=sorted({by for by in (schedule.changed_by, slot.requested_by) if by is not None}),
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

    async def _end_if_run_has(self, slot: Slot) -> None:
        """Before another takes its place. A service that does not answer does not keep the other from that."""
        with suppress(ExecutionRefused, Unavailable):
            run_id = await self._run_of(slot)
            state = None if run_id is None else await self.execution.look(run_id)
            if state is not None and state.ended:
                await self._end(slot, state.error_code, state.error_message)

    async def _end(self, slot: Slot, error_code: str | None, error_message: str | None) -> dict[str, str]:
        status: SlotStatus = "success" if error_code is None else "error"
        make_job = await slot_jobs(self.store, self.directory, self.new_id)
        await self.store.slots.end(slot.id, status, error_code, error_message, make_job)
        return {"slot": status}

    async def _leave(self, slot: Slot) -> dict[str, str]:
        if slot.error_code == "replaced":
            try:
                await self._stop(slot, "another slot took its place")
            except Unavailable as error:
                raise self._away(slot, error) from None
        return {"slot": slot.status}

    async def _stop(self, slot: Slot, reason: str) -> None:
        run_id = await self._run_of(slot)
        if run_id is None:
            return
        try:
            await self.execution.stop(run_id, reason)
        except ExecutionRefused as refused:
            log.warning("run_not_stopped", run_id=run_id, schedule_id=slot.schedule_id, error=str(refused))

    async def _run_of(self, slot: Slot) -> JobId | None:
        """The run that the slot has started. A worker that died before it noted the run has left its idempotency key."""
        if slot.run_id is not None:
            return slot.run_id
        schedule = await self.store.schedules.get(slot.schedule_id)
        if schedule is None:
            return None
        request = await self.store.requests.by_key(schedule.tenant_id, slot_key(schedule.id, slot.scheduled_for))
        if request is None:
            return None
        await self.store.slots.note_run(slot.id, request.run_id, request.trace_id)
        return request.run_id

    def _away(self, slot: Slot, error: Unavailable) -> SleepUntil:
        at = slot_time(slot.scheduled_for)
        log.warning("execution_service_unavailable", schedule_id=slot.schedule_id, slot=at, error=str(error))
        return self._sleep(slot.started_at or slot.scheduled_for)

    def _sleep(self, since: datetime) -> SleepUntil:
        """The longer it takes already, the longer until the next look."""
        now = self.clock.now()
        waited = max(0.0, (now - instant(since)) / SECOND)
        pause = min(max(SHARE * waited, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        return SleepUntil(Instant(now + round(pause * SECOND)))


def _slot(begun: Begun) -> Slot:
    assert begun.slot is not None
    return begun.slot
