"""Schedules: cron rules, what runs by them, and what became of each of their slots."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath, WithReason
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, number_in, text_in
from cortex_plane.adapters.http.routes.found import grant_in, schedule_in
from cortex_plane.adapters.http.routes.schedule_inputs import ChangeSchedule, NewSchedule, Range
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.instants import as_datetime, instant
from cortex_plane.core.schedules import REVISION_LENGTH, Schedule, ScheduleChanged, ScheduleId, Slot, revision_of
from cortex_plane.core.shown_schedules import ShownSchedule, shown
from cortex_plane.core.slots import coming
from cortex_plane.operations.add_schedule import add_schedule
from cortex_plane.operations.ask_for_slots import backfill_schedule, trigger_schedule
from cortex_plane.operations.change_schedule import change_schedule
from cortex_plane.operations.remove_schedule import remove_schedule
from cortex_plane.operations.switch_schedule import pause_schedule, resume_schedule
from cortex_plane.plane import Plane
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/schedules", tags=["schedules"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]
ScheduleMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        pattern=rf'^([*]|(W/)?"[0-9a-f]{{{REVISION_LENGTH}}}")$',
        description="The ETag of the schedule as you saw it: a change is refused when somebody has changed it since.",
    ),
]
TRIES = 5


@router.get("")
async def list_schedules(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[ShownSchedule]:
    """By name."""
    store = await plane.store
    found = list(await store.schedules.page(caller.tenant_id, text_in("schedule", cursor) or "", limit))
    return Page(items=[shown(one) for one in found], next=cursor_for("schedule", found[-1].name) if len(found) == limit else None)


@router.post("", status_code=201, response_model=ShownSchedule)
async def add_a_schedule(
    request: Request, caller: Operator, plane: ThePlane, body: NewSchedule, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a schedule, its grant unless one is named, and the job of its first slot: all or nothing."""
    if body.grant is not None:
        await grant_in(plane, caller, body.grant)

    async def work(ids: NewId) -> ShownSchedule:
        opened = await plane._open_here()
        schedule_id = ScheduleId(ids())
        known = await opened.store.schedules.get(schedule_id)
        if known is not None:
            return shown(known)
        return shown(await add_schedule(opened.store, opened.directory, plane.clock, ids, body.wish(caller, schedule_id)))

    return await created(request, caller, idempotency_key, ShownSchedule, work, location="/api/v1/schedules/{id}")


@router.get("/{schedule_id}")
async def get_schedule(caller: Viewer, plane: ThePlane, response: Response, schedule_id: IdPath) -> ShownSchedule:
    """One schedule."""
    return _tagged(response, await schedule_in(plane, caller, schedule_id))


@router.patch("/{schedule_id}")
async def change_a_schedule(
    caller: Operator,
    plane: ThePlane,
    response: Response,
    schedule_id: IdPath,
    body: ChangeSchedule,
    if_match: ScheduleMatch = None,
) -> ShownSchedule:
    """Changes what it runs, when, and under which grant. The slot that comes next is reckoned anew."""
    grant = None if "grant" not in body.model_fields_set else (await grant_in(plane, caller, body.grant)).id
    wanted = None if if_match in (None, "*") else str(if_match).removeprefix("W/").strip('"')
    for tries_left in reversed(range(TRIES)):
        schedule = await schedule_in(plane, caller, schedule_id)
        try:
            return _tagged(response, await _change(plane, caller, schedule, body, grant, wanted or revision_of(schedule)))
        except ScheduleChanged:
            if wanted is not None or not tries_left:
                raise
    raise AssertionError("the last try answers or raises")


@router.post("/{schedule_id}/pause")
async def pause_a_schedule(
    caller: Operator, plane: ThePlane, response: Response, schedule_id: IdPath, body: WithReason
) -> ShownSchedule:
    """A slot that runs goes on; the one that waits is taken out of the queue."""
    opened, schedule = await plane._open_here(), await schedule_in(plane, caller, schedule_id)
    paused = await pause_schedule(opened.store, opened.directory, plane._ids, schedule, actor=caller.name, reason=body.reason)
    return _tagged(response, paused)


@router.post("/{schedule_id}/resume")
async def resume_a_schedule(
    caller: Operator, plane: ThePlane, response: Response, schedule_id: IdPath, body: WithReason
) -> ShownSchedule:
    """From the next slot on: what was due meanwhile was not missed, it was not wanted."""
    opened, schedule = await plane._open_here(), await schedule_in(plane, caller, schedule_id)
    resumed = await resume_schedule(
        opened.store, opened.directory, plane.clock, plane._ids, schedule, actor=caller.name, reason=body.reason
    )
    return _tagged(response, resumed)


@router.post("/{schedule_id}/trigger", status_code=201, response_model=Slot)
async def trigger_a_schedule(
    request: Request, caller: Operator, plane: ThePlane, schedule_id: IdPath, idempotency_key: IdempotencyKey = None
) -> Response:
    """One slot more, now; also of a schedule that is paused. It is charged as any other."""
    schedule = await schedule_in(plane, caller, schedule_id)

    async def work(ids: NewId) -> Slot:
        opened = await plane._open_here()
        return await trigger_schedule(opened.store, opened.directory, plane.clock, ids, schedule)

    return await created(request, caller, idempotency_key, Slot, work)


@router.post("/{schedule_id}/backfill")
async def backfill_a_schedule(caller: Operator, plane: ThePlane, schedule_id: IdPath, body: Range) -> list[Slot]:
    """Runs the slots of a past range that did not run, and answers with those. They are charged as any other."""
    opened, schedule = await plane._open_here(), await schedule_in(plane, caller, schedule_id)
    return await backfill_schedule(opened.store, opened.directory, plane.clock, plane._ids, schedule, body.start, body.end)


@router.get("/{schedule_id}/next")
async def coming_slots(
    caller: Viewer, plane: ThePlane, schedule_id: IdPath, count: Annotated[int, Query(ge=1, le=1_000)] = 5
) -> list[datetime]:
    """The coming slots, whether it is paused or not."""
    schedule = await schedule_in(plane, caller, schedule_id)
    return coming(schedule.terms, as_datetime(plane.clock.now()), count)


@router.get("/{schedule_id}/runs")
async def schedule_runs(
    caller: Viewer, plane: ThePlane, schedule_id: IdPath, limit: Limit = 50, cursor: Cursor = None
) -> Page[Slot]:
    """What became of its slots, newest first: when each began and ended, its run, why it failed or was left out."""
    schedule = await schedule_in(plane, caller, schedule_id)
    before = number_in("slot", cursor)
    store = await plane.store
    found = await store.slots.list(schedule.id, before=None if before is None else as_datetime(before), limit=limit)
    return Page(items=found, next=cursor_for("slot", instant(found[-1].scheduled_for)) if len(found) == limit else None)


@router.delete("/{schedule_id}", status_code=204)
async def remove_a_schedule(caller: Operator, plane: ThePlane, schedule_id: IdPath) -> None:
    """Removes it and the record of its slots. A run that it started goes on; so do its grant and what was charged."""
    await remove_schedule(await plane.store, await schedule_in(plane, caller, schedule_id), actor=caller.name)


async def _change(
    plane: Plane, caller: Caller, schedule: Schedule, body: ChangeSchedule, grant: str | None, revision: str
) -> Schedule:
    opened = await plane._open_here()
    return await change_schedule(
        opened.store,
        opened.directory,
        plane.clock,
        plane._ids,
        schedule,
        body.terms(schedule),
        grant=grant,
        actor=caller.name,
        revision=revision,
    )


def _tagged(response: Response, schedule: Schedule) -> ShownSchedule:
    response.headers["ETag"] = f'"{revision_of(schedule)}"'
    return shown(schedule)
