"""HTTP: /api/v1/schedules."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import ConfigDict, Field

from cortex_plane.clock import as_datetime, instant
from cortex_plane.cursors import cursor_for
from cortex_plane.grants.model import DEFAULT_ACCOUNT
from cortex_plane.grants.service import MOST_USES
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Cursor, Id, IdPath, Input, Limit, Moment, Name, Page, WithReason, number_in, text_in
from cortex_plane.http.lookups import grant_in, schedule_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.schedules.changes import change_schedule, pause_schedule, remove_schedule, resume_schedule
from cortex_plane.schedules.model import (
    REVISION_LENGTH,
    MissedRule,
    OverlapRule,
    Schedule,
    ScheduleChanged,
    ScheduleId,
    ScheduleTerms,
    ScheduleView,
    Slot,
    revision_of,
    schedule_view,
)
from cortex_plane.schedules.runner import backfill_schedule, trigger_schedule
from cortex_plane.schedules.slots import coming
from cortex_plane.schedules.terms import LONGEST_JITTER_SECONDS, MOST_CAUGHT_UP, MOST_FAILURES, ScheduleWish, add_schedule

Target = Annotated[
    Name,
    Field(description="What runs: agent:NAME, template:NAME or the id of a graph.", examples=["agent:report", "langgraph:poet"]),
]
Cron = Annotated[Name, Field(description="minute hour day month weekday", examples=["0 9 * * mon-fri"])]
Zone = Annotated[Name, Field(description="On whose clocks, by its IANA name.", examples=["Europe/Berlin"])]
Missed = Annotated[MissedRule, Field(description="What becomes of slots that nobody started in time.")]
MostMissed = Annotated[int, Field(ge=1, le=MOST_CAUGHT_UP, description="Under `all`: no more than so many.")]
Overlap = Annotated[OverlapRule, Field(description="What becomes of a slot while an earlier one runs.")]
Jitter = Annotated[float, Field(ge=0, le=LONGEST_JITTER_SECONDS, description="A slot begins up to so much later.")]
Failures = Annotated[int, Field(ge=1, le=MOST_FAILURES, description="It pauses after so many failures in a row.")]
GrantUses = Annotated[int, Field(ge=1, le=MOST_USES)]


class NewSchedule(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "weekday report",
                    "target": "agent:report",
                    "cron": "0 9 * * mon-fri",
                    "timezone": "Europe/Berlin",
                    "input": {"kind": "short"},
                }
            ]
        },
    )

    name: Name = Field(description="Unique in the tenant.")
    target: Target
    cron: Cron
    timezone: Zone = "UTC"
    input: dict[str, Any] = Field(default={}, description="For the target; for a template, what replaces keys of its params.")
    missed: Missed = "skip"
    most_missed: MostMissed = 1
    overlap: Overlap = "forbid"
    jitter_seconds: Jitter = 0.0
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    pause_after_failures: Failures | None = None
    grant: Id | None = Field(default=None, description="Under which it runs. Otherwise one is made, for exactly the target.")
    billing_account: Name = Field(default=DEFAULT_ACCOUNT, description="Who is charged, for a grant that is made.")
    grant_expires_at: Moment | None = Field(default=None, description="For a grant that is made.")
    grant_max_uses: GrantUses | None = Field(default=None, description="For a grant that is made.")

    def wish(self, caller: Caller, schedule_id: ScheduleId) -> ScheduleWish:
        return ScheduleWish(
            self.name,
            self._terms(),
            tenant=caller.tenant,
            grant=self.grant,
            billing_account=self.billing_account,
            grant_expires_at=self.grant_expires_at,
            grant_max_uses=self.grant_max_uses,
            owner_id=caller.user_id,
            created_by=caller.name,
            id=schedule_id,
        )

    def _terms(self) -> ScheduleTerms:
        return ScheduleTerms(
            self.target,
            self.cron,
            self.timezone,
            self.input,
            self.missed,
            self.most_missed,
            self.overlap,
            self.jitter_seconds,
            self.starts_at,
            self.ends_at,
            self.pause_after_failures,
        )


class ChangeSchedule(Input):
    """What is left out stays as it is. Where null means something, it takes the thing away."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"cron": "0 8 * * mon-fri"}]})

    target: Target = ""
    cron: Cron = ""
    timezone: Zone = ""
    input: dict[str, Any] = Field(default={})
    missed: Missed = "skip"
    most_missed: MostMissed = 1
    overlap: Overlap = "forbid"
    jitter_seconds: Jitter = 0.0
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    pause_after_failures: Failures | None = None
    grant: Id = Field(default="", description="Under which it runs from now on.")

    def terms(self, schedule: Schedule) -> ScheduleTerms:
        given = {name: getattr(self, name) for name in self.model_fields_set - {"target", "grant"}}
        if "target" in self.model_fields_set:
            given["graph_id"] = self.target
        return replace(schedule.terms, **given)


class Range(Input):
    start: Moment = Field(description="From this on,", examples=["2026-01-05T00:00:00Z"])
    end: Moment = Field(description="and before this.", examples=["2026-01-06T00:00:00Z"])


# -- schedules ---------------------------------------------------------------------------------
# Schedules: cron rules, what runs by them, and what became of each of their slots.


router = APIRouter(prefix=f"{PREFIX}/schedules", tags=["schedules"])

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
async def list_schedules(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[ScheduleView]:
    """By name."""
    store = plane.store
    found = list(await store.schedules.page(caller.tenant_id, text_in("schedule", cursor) or "", limit))
    return Page(
        items=[schedule_view(one) for one in found], next=cursor_for("schedule", found[-1].name) if len(found) == limit else None
    )


@router.post("", status_code=201, response_model=ScheduleView)
async def add_a_schedule(
    request: Request, caller: Operator, plane: ThePlane, body: NewSchedule, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a schedule, its grant unless one is named, and the job of its first slot: all or nothing."""
    if body.grant is not None:
        await grant_in(plane, caller, body.grant)

    async def work(ids: NewId) -> ScheduleView:
        schedule_id = ScheduleId(ids())
        known = await plane.store.schedules.get(schedule_id)
        if known is not None:
            return schedule_view(known)
        return schedule_view(await add_schedule(plane.store, plane.directory, plane.clock, ids, body.wish(caller, schedule_id)))

    return await created(request, caller, idempotency_key, ScheduleView, work, location="/api/v1/schedules/{id}")


@router.get("/{schedule_id}")
async def get_schedule(caller: Viewer, plane: ThePlane, response: Response, schedule_id: IdPath) -> ScheduleView:
    """One schedule, also when it was removed."""
    return _tagged(response, await schedule_in(plane, caller, schedule_id, removed=True))


@router.patch("/{schedule_id}")
async def change_a_schedule(
    caller: Operator,
    plane: ThePlane,
    response: Response,
    schedule_id: IdPath,
    body: ChangeSchedule,
    if_match: ScheduleMatch = None,
) -> ScheduleView:
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
) -> ScheduleView:
    """A slot that runs goes on; the one that waits is taken out of the queue."""
    schedule = await schedule_in(plane, caller, schedule_id)
    paused = await pause_schedule(plane.store, plane.directory, plane._ids, schedule, actor=caller.name, reason=body.reason)
    return _tagged(response, paused)


@router.post("/{schedule_id}/resume")
async def resume_a_schedule(
    caller: Operator, plane: ThePlane, response: Response, schedule_id: IdPath, body: WithReason
) -> ScheduleView:
    """From the next slot on: what was due meanwhile was not missed, it was not wanted."""
    schedule = await schedule_in(plane, caller, schedule_id)
    resumed = await resume_schedule(
        plane.store, plane.directory, plane.clock, plane._ids, schedule, actor=caller.name, reason=body.reason
    )
    return _tagged(response, resumed)


@router.post("/{schedule_id}/trigger", status_code=201, response_model=Slot)
async def trigger_a_schedule(
    request: Request, caller: Operator, plane: ThePlane, schedule_id: IdPath, idempotency_key: IdempotencyKey = None
) -> Response:
    """One slot more, now; also of a schedule that is paused. It is charged as any other."""
    schedule = await schedule_in(plane, caller, schedule_id)

    async def work(ids: NewId) -> Slot:
        return await trigger_schedule(plane.store, plane.directory, plane.clock, ids, schedule, actor=caller.name)

    return await created(request, caller, idempotency_key, Slot, work)


@router.post("/{schedule_id}/backfill")
async def backfill_a_schedule(caller: Operator, plane: ThePlane, schedule_id: IdPath, body: Range) -> list[Slot]:
    """Runs the slots of a past range that did not run, and answers with those. They are charged as any other."""
    schedule = await schedule_in(plane, caller, schedule_id)
    return await backfill_schedule(
        plane.store, plane.directory, plane.clock, plane._ids, schedule, body.start, body.end, actor=caller.name
    )


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
    """What became of its slots, newest first: when each began and ended, its run, why it failed or was left out. Those of a
    schedule that was removed stay."""
    schedule = await schedule_in(plane, caller, schedule_id, removed=True)
    before = number_in("slot", cursor)
    store = plane.store
    found = await store.slots.list(schedule.id, before=None if before is None else as_datetime(before), limit=limit)
    return Page(items=found, next=cursor_for("slot", instant(found[-1].scheduled_for)) if len(found) == limit else None)


@router.delete("/{schedule_id}", status_code=204, response_model=None)
async def remove_a_schedule(caller: Operator, plane: ThePlane, schedule_id: IdPath) -> None:
    """Removes it; the record of its slots stays, under its id. A run that it started goes on. A grant that has served this
    schedule alone is revoked."""
    await remove_schedule(plane.store, await schedule_in(plane, caller, schedule_id), actor=caller.name)


async def _change(
    plane: Plane, caller: Caller, schedule: Schedule, body: ChangeSchedule, grant: str | None, revision: str
) -> Schedule:
    return await change_schedule(
        plane.store,
        plane.directory,
        plane.clock,
        plane._ids,
        schedule,
        body.terms(schedule),
        grant=grant,
        actor=caller.name,
        revision=revision,
    )


def _tagged(response: Response, schedule: Schedule) -> ScheduleView:
    response.headers["ETag"] = f'"{revision_of(schedule)}"'
    return schedule_view(schedule)
