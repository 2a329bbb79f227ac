"""Dashboard pages: schedules, one schedule, new schedule."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.clock import as_datetime
from cortex_plane.dashboard.flash import Note, go_to, told
from cortex_plane.dashboard.render import page
from cortex_plane.errors import CortexError, InvalidInput, Unavailable
from cortex_plane.grants.model import AGENT_TARGET, TEMPLATE_TARGET
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.inputs import IdPath
from cortex_plane.jobs.model import INTERNAL_PREFIX
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.schedules.model import MissedRule, OverlapRule, Schedule, ScheduleExists, ScheduleNotFound, schedule_view
from cortex_plane.schedules.slots import coming

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
        one=schedule_view(schedule),
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
        await plane.schedules.trigger(schedule.id, tenant=caller.tenant, actor=caller.name)
        return "One slot more starts now."

    return await told(f"/schedules/{schedule_id}", work())


@router.post("/schedules/{schedule_id}/backfill")
async def backfill(caller: Operator, plane: ThePlane, schedule_id: IdPath, start: Moment, end: Moment) -> Response:
    async def work() -> str:
        schedule = await _in(plane, caller, schedule_id)
        since, until = _moment(start, "start"), _moment(end, "end")
        made = await plane.schedules.backfill(schedule.id, since, until, tenant=caller.tenant, actor=caller.name)
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


# -- new schedule ------------------------------------------------------------------------------
# A new schedule. What is wrong with it is told beside the field that is wrong, and nothing that was written is lost.


new_schedule_router = APIRouter(include_in_schema=False)
Word = Annotated[str, Form(max_length=300)]
EMPTY = {"name": "", "target": "", "cron": "", "timezone": "UTC", "input": "{}", "missed": "skip", "overlap": "forbid"}


@new_schedule_router.get("/schedules/new")
async def ask(request: Request, caller: Operator, plane: ThePlane) -> Response:
    return await _form(request, caller, plane, EMPTY)


@new_schedule_router.post("/schedules")
async def add(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    name: Word = "",
    target: Word = "",
    cron: Word = "",
    timezone: Word = "UTC",
    input: Annotated[str, Form(max_length=300_000)] = "{}",  # noqa: A002 - the word for it everywhere
    missed: Word = "skip",
    overlap: Word = "forbid",
) -> Response:
    """Shows the new schedule, and with it when it comes next."""
    asked = {
        "name": name.strip(),
        "target": target,
        "cron": cron,
        "timezone": timezone.strip(),
        "input": input,
        "missed": missed,
        "overlap": overlap,
    }
    try:
        terms: Any = {**asked, "input": _input(input)}
        schedule = await plane.schedules.add(**terms, tenant=caller.tenant, created_by=caller.name)
    except Unavailable:
        raise
    except CortexError as error:
        return await _form(request, caller, plane, asked, problem=str(error), field=_field(error), status=422)
    tenant = request.query_params.get("tenant")
    here = f"/schedules/{schedule.id}" + (f"?tenant={tenant}" if tenant else "")
    return go_to(here, Note("done", f"{schedule.name} is scheduled."))


async def _form(
    request: Request,
    caller: Caller,
    plane: Plane,
    asked: dict[str, str],
    *,
    problem: str = "",
    field: str = "",
    status: int = 200,
) -> Response:
    return await page(
        request,
        caller,
        "new_schedule.html",
        status=status,
        asked=asked,
        problem=problem,
        field=field,
        targets=await _targets(plane, caller),
        missed=get_args(MissedRule),
        overlap=get_args(OverlapRule),
    )


async def _targets(plane: Plane, caller: Caller) -> list[str]:
    agents = [agent.job_type for agent in await plane.directory.agents()]
    templates = [template.name for template in await plane.templates.list(tenant=caller.tenant)]
    return [
        *(f"{AGENT_TARGET}{name}" for name in agents if not name.startswith(INTERNAL_PREFIX)),
        *(f"{TEMPLATE_TARGET}{name}" for name in templates),
    ]


def _field(error: CortexError) -> str:
    """Where it is told; one that no field stands for is told above them all."""
    if isinstance(error, ScheduleExists):
        return "name"
    named = error.field if isinstance(error, InvalidInput) else None
    return named if named in EMPTY else ""


def _input(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text.strip() or "{}")
    except ValueError as error:
        raise InvalidInput(f'This is not JSON: {error}. Write {{"name": "value"}}.', field="input") from None
    if not isinstance(value, dict):
        raise InvalidInput('The input must be an object: arguments by name, such as {"kind": "short"}.', field="input")
    return value
