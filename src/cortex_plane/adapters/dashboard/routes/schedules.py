"""Schedules: what comes next, what became of it, and the levers: pause, run now, catch up a range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import told
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.schedules import Schedule, ScheduleNotFound
from cortex_plane.core.shown_schedules import shown
from cortex_plane.core.slots import coming
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]
Reason = Annotated[str, Form(max_length=2_000)]
Moment = Annotated[str, Form(max_length=40)]
DAYS = 7
MANY_A_DAY = 3
SHOWN_A_DAY = 8
LEDGER = 50


Line = tuple[datetime | None, Schedule]


@dataclass(frozen=True, slots=True)
class Day:
    date: date
    slots: list[Line]
    more: int


@router.get("/schedules")
async def schedules(request: Request, caller: Viewer, plane: ThePlane) -> Response:
    found = await plane.schedules.list(tenant=caller.tenant)
    now = as_datetime(plane.clock.now())
    return await page(
        request,
        caller,
        "schedules.html",
        schedules=found,
        days=calendar(found, now),
        next={one.id: _next(one, now) for one in found},
    )


@router.get("/schedules/{schedule_id}")
async def one_schedule(request: Request, caller: Viewer, plane: ThePlane, schedule_id: IdPath) -> Response:
    schedule = await _in(plane, caller, schedule_id)
    now = as_datetime(plane.clock.now())
    return await page(
        request,
        caller,
        "schedule.html",
        one=shown(schedule),
        coming=coming(schedule.terms, now, 10),
        slots=await plane.schedules.slots(schedule.id, tenant=caller.tenant, limit=LEDGER),
        days=calendar([schedule], now),
    )


@router.post("/schedules/{schedule_id}/pause")
async def pause(caller: Operator, plane: ThePlane, schedule_id: IdPath, reason: Reason = "") -> Response:
    async def work() -> str:
        schedule = await _in(plane, caller, schedule_id)
        await plane.schedules.pause(schedule.id, tenant=caller.tenant, actor=caller.name, reason=reason or None)
        return f"{schedule.name} is paused: no slot of it starts."

    return await told(f"/schedules/{schedule_id}", work())


@router.post("/schedules/{schedule_id}/resume")
async def resume(caller: Operator, plane: ThePlane, schedule_id: IdPath, reason: Reason = "") -> Response:
    async def work() -> str:
        schedule = await _in(plane, caller, schedule_id)
        await plane.schedules.resume(schedule.id, tenant=caller.tenant, actor=caller.name, reason=reason or None)
        return f"{schedule.name} goes on."

    return await told(f"/schedules/{schedule_id}", work())


@router.post("/schedules/{schedule_id}/trigger")
async def trigger(caller: Operator, plane: ThePlane, schedule_id: IdPath) -> Response:
    async def work() -> str:
        schedule = await _in(plane, caller, schedule_id)
        await plane.schedules.trigger(schedule.id, tenant=caller.tenant)
        return "One slot more starts now."

    return await told(f"/schedules/{schedule_id}", work())


@router.post("/schedules/{schedule_id}/backfill")
async def backfill(caller: Operator, plane: ThePlane, schedule_id: IdPath, start: Moment, end: Moment) -> Response:
    async def work() -> str:
        schedule = await _in(plane, caller, schedule_id)
        since, until = _moment(start, "start"), _moment(end, "end")
        made = await plane.schedules.backfill(schedule.id, since, until, tenant=caller.tenant)
        return f"{len(made)} {'slot' if len(made) == 1 else 'slots'} of that range will run."

    return await told(f"/schedules/{schedule_id}", work())


def calendar(found: Iterable[Schedule], now: datetime) -> list[Day]:
    """The slots of the next days, in UTC. A schedule with many on one day has a line of its own there, without a time."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    enabled = [schedule for schedule in found if schedule.enabled]
    return [_day(enabled, today + timedelta(days=number), now) for number in range(DAYS)]


def _day(schedules: Iterable[Schedule], start: datetime, now: datetime) -> Day:
    lines: list[Line] = []
    for schedule in schedules:
        slots = _slots_on(schedule, start, now)
        lines += [(slot, schedule) for slot in slots] if len(slots) <= MANY_A_DAY else [(None, schedule)]
    lines.sort(key=lambda line: (line[0] or start, line[1].name))
    return Day(start.date(), lines[:SHOWN_A_DAY], max(len(lines) - SHOWN_A_DAY, 0))


def _slots_on(schedule: Schedule, start: datetime, now: datetime) -> list[datetime]:
    """Of very many, one more than are listed."""
    just_before = start - timedelta(microseconds=1)
    return coming(schedule.terms, max(now, just_before), MANY_A_DAY + 1, before=start + timedelta(days=1))


def _next(schedule: Schedule, now: datetime) -> datetime | None:
    return next(iter(coming(schedule.terms, now, 1)), None) if schedule.enabled else None


async def _in(plane: Plane, caller: Caller, schedule_id: str) -> Schedule:
    schedule = await plane.schedules.get(schedule_id, tenant=caller.tenant)
    if schedule.tenant_id != caller.tenant_id:
        raise ScheduleNotFound(schedule_id)
    return schedule


def _moment(text: str, field: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{field} must be a time such as 2026-07-01T09:30, in UTC.", field=field) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
