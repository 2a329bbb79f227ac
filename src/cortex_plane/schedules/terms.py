"""Validates the terms of a schedule, adds it, and makes the jobs of its slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, cast, get_args

from cortex_plane.agents.model import AgentRecord
from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import EARLIEST, LATEST, Clock, as_datetime, instant
from cortex_plane.errors import Denied, InvalidInput, UnknownAgent, did_you_mean
from cortex_plane.grants.model import (
    AGENT_TARGET,
    DEFAULT_ACCOUNT,
    TEMPLATE_TARGET,
    GrantId,
    NewGrant,
    check_target,
    check_within,
    problem_with,
    scope_of,
)
from cortex_plane.grants.service import GrantWish, checked_grant, find_grant
from cortex_plane.jobs.model import DEFAULT_TENANT, INTERNAL_QUEUE, AgentId, JobId, NewJob, TenantId
from cortex_plane.jobs.submission import check_arguments
from cortex_plane.json import dumps, encode, normal, refuse_larger
from cortex_plane.people.model import checked_readable_name
from cortex_plane.schedules.cron import parse, time_zone
from cortex_plane.schedules.model import (
    SLOT_AGENT,
    SLOT_CONFIG,
    MissedRule,
    OverlapRule,
    Schedule,
    ScheduleId,
    ScheduleTerms,
    SlotOrigin,
    Source,
    slot_id,
    slot_key,
    slot_time,
)
from cortex_plane.schedules.slots import coming, due_at, first_slot, standing_at, utc
from cortex_plane.telemetry import trace_from
from cortex_plane.templates.service import not_found

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.ids import NewId
    from cortex_plane.schedules.rows import MakeJob
    from cortex_plane.stores import Store

LONGEST_JITTER_SECONDS = 3600.0
MOST_CAUGHT_UP = 1000
MOST_FAILURES = 1_000_000
INPUT_LIMIT_BYTES = 256 * 1024


def checked_terms(terms: ScheduleTerms, now: datetime) -> ScheduleTerms:
    """The same in normal form; raises InvalidInput naming the field."""
    _check_rule(terms.cron)
    time_zone(terms.timezone)
    checked = ScheduleTerms(
        graph_id=check_target(terms.graph_id),
        cron=terms.cron.strip(),
        timezone=terms.timezone,
        input=_input(terms.input),
        missed=_one_of(terms.missed, get_args(MissedRule), "missed"),
        most_missed=_number(terms.most_missed, "most_missed", MOST_CAUGHT_UP),
        overlap=_one_of(terms.overlap, get_args(OverlapRule), "overlap"),
        jitter_seconds=_jitter(terms.jitter_seconds),
        starts_at=_moment(terms.starts_at, "starts_at"),
        ends_at=_moment(terms.ends_at, "ends_at"),
        pause_after_failures=None
        if terms.pause_after_failures is None
        else _number(terms.pause_after_failures, "pause_after_failures", MOST_FAILURES),
    )
    _check_slots(checked, now)
    return checked


def _check_rule(cron: Any) -> None:
    try:
        parse(cron)
    except InvalidInput as error:
        example = "" if "such as" in str(error) else ' A rule such as "0 9 * * mon-fri" is due every weekday at 09:00.'
        raise InvalidInput(f"{error}{example}", field="cron") from None


def _check_slots(terms: ScheduleTerms, now: datetime) -> None:
    slots = coming(terms, now, 3)
    if not slots:
        until = "" if terms.ends_at is None else f" before {terms.ends_at.isoformat()}"
        raise InvalidInput(f'"{terms.cron}" in {terms.timezone} is never due{until}.', field="cron")
    shortest = min((after - before for before, after in pairwise(slots)), default=None)
    if shortest is not None and timedelta(seconds=terms.jitter_seconds) >= shortest:
        raise InvalidInput(
            f"jitter is {terms.jitter_seconds:g} s, but slots are only {shortest.total_seconds():g} s apart. Make it less.",
            field="jitter",
        )


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"input must be a dict of the target's arguments by name, not {value!r:.60}.", field="input")
    refuse_larger(dict(value), INPUT_LIMIT_BYTES, "input")
    stored = cast(dict[str, Any], normal(dict(value), "input"))
    if (size := len(dumps(stored).encode())) > INPUT_LIMIT_BYTES:
        raise InvalidInput(f"input is {size:,} bytes of JSON; the limit is {INPUT_LIMIT_BYTES:,}.", field="input")
    return stored


def _one_of(value: Any, known: tuple[Any, ...], field: str) -> Any:
    if value not in known:
        hint = did_you_mean(str(value)[:40], known)
        raise InvalidInput(f"{field} must be one of {', '.join(known)}, not {value!r:.40}.{hint}", field=field)
    return value


def _number(value: Any, field: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(f"{field} must be a whole number from 1 to {most:,}, not {value!r:.40}.", field=field)
    return value


def _jitter(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not isfinite(value)
        or not 0 <= value <= LONGEST_JITTER_SECONDS
    ):
        raise InvalidInput(f"jitter must be from 0 to {LONGEST_JITTER_SECONDS:g} seconds, not {value!r:.40}.", field="jitter")
    return float(value)


def _moment(value: Any, field: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or not EARLIEST <= utc(value) <= LATEST:
        raise InvalidInput(f"{field} must be a datetime, not {value!r:.60}.", field=field)
    return utc(value)


# -- slot jobs ---------------------------------------------------------------------------------
# The jobs that look after slots: of the plane's own agent, in its own queue, one for each slot.


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


# -- add schedule ------------------------------------------------------------------------------
# Adds a schedule, together with a grant of its own unless one is named, and the job of its first slot: all or nothing.


@dataclass(frozen=True, slots=True)
class ScheduleWish:
    """What a caller asks for. Without a grant, one is made that allows exactly the target. `held` are the scopes that the
    caller holds; None for an operator, who holds all."""

    name: str
    terms: ScheduleTerms
    tenant: str = DEFAULT_TENANT
    grant: str | None = None
    billing_account: str = DEFAULT_ACCOUNT
    grant_expires_at: datetime | None = None
    grant_max_uses: int | None = None
    owner_id: str | None = None
    created_by: str | None = None
    held: Sequence[str] | None = None
    source: Source = "operator"
    id: ScheduleId | None = None
    """One that was given out before, for a request that may come again."""


async def add_schedule(store: Store, directory: Directory, clock: Clock, new_id: NewId, wish: ScheduleWish) -> Schedule:
    now = as_datetime(clock.now())
    name = checked_readable_name(wish.name)
    tenant_id = await directory.tenant(checked_readable_name(wish.tenant, "tenant"))
    terms = checked_terms(wish.terms, now)
    if wish.held is not None:
        check_within([scope_of(terms.graph_id)], wish.held)
    await check_target_exists(store, directory, tenant_id, terms.graph_id)
    grant_id, grant, entries = await _grant(store, directory, clock, new_id, wish, tenant_id)
    await check_input(store, directory, tenant_id, terms)
    schedule = Schedule(
        id=wish.id or ScheduleId(new_id()),
        tenant_id=tenant_id,
        name=name,
        grant_id=grant_id,
        terms=terms,
        source=wish.source,
        owner_id=wish.owner_id,
        created_by=wish.created_by,
        changed_by=wish.created_by,
    )
    schedule = standing_at(schedule, first_slot(terms, now))
    make_job = await slot_jobs(store, directory, new_id)
    await store.schedules.add(schedule, grant, make_job, [*entries, _entry(schedule)])
    added = await store.schedules.get(schedule.id)
    assert added is not None
    return added


async def check_target_exists(store: Store, directory: Directory, tenant_id: TenantId, graph_id: str) -> None:
    """Raises UnknownAgent or TemplateNotFound, with what was perhaps meant. A graph is an agent of that name."""
    await _target(store, directory, tenant_id, graph_id)


async def check_input(store: Store, directory: Directory, tenant_id: TenantId, terms: ScheduleTerms) -> None:
    """Raises InvalidInput with the field that the target does not take."""
    agent, params = await _target(store, directory, tenant_id, terms.graph_id)
    await check_arguments(directory, agent, {**params, **terms.input}, name="input")


async def _target(
    store: Store, directory: Directory, tenant_id: TenantId, graph_id: str
) -> tuple[AgentRecord, Mapping[str, Any]]:
    """The agent that runs, and the arguments that a template gives it."""
    if not graph_id.startswith(TEMPLATE_TARGET):
        return await directory.agent(graph_id.removeprefix(AGENT_TARGET)), {}
    name = graph_id.removeprefix(TEMPLATE_TARGET)
    template = await store.templates.get(tenant_id, name)
    if template is None:
        raise await not_found(store, tenant_id, name)
    return await directory.agent(template.job_type), template.params


async def _grant(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, wish: ScheduleWish, tenant_id: TenantId
) -> tuple[GrantId, NewGrant | None, list[AuditEntry]]:
    graph_id = wish.terms.graph_id
    if wish.grant is not None:
        await check_grant(store, clock, wish.grant, tenant_id, graph_id)
        return (await find_grant(store, wish.grant)).id, None, []
    asked = GrantWish(
        scopes=[scope_of(graph_id)],
        tenant=wish.tenant,
        billing_account=wish.billing_account,
        expires_at=wish.grant_expires_at,
        max_uses=wish.grant_max_uses,
        user_account_id=wish.owner_id,
        created_by=wish.created_by,
    )
    grant, entry = await checked_grant(store, directory, clock, new_id, asked)
    return grant.id, grant, [entry]


async def check_grant(store: Store, clock: Clock, grant_id: str, tenant_id: TenantId, graph_id: str) -> None:
    """Raises GrantNotFound or GrantRefused, or Denied for a grant of another tenant."""
    grant = await find_grant(store, grant_id)
    if grant.tenant_id != tenant_id:
        raise Denied(f'Grant {grant.id} belongs to tenant "{grant.tenant}", and the schedule to another.')
    if problem := problem_with(grant, as_datetime(clock.now()), graph_id):
        raise problem


def _entry(schedule: Schedule) -> AuditEntry:
    terms = schedule.terms
    details = {"name": schedule.name, "target": terms.graph_id, "cron": terms.cron, "timezone": terms.timezone}
    return AuditEntry(
        "SCHEDULE_ADDED",
        "schedule",
        schedule.id,
        schedule.created_by,
        tenant_id=schedule.tenant_id,
        details={**details, "grant_id": schedule.grant_id},
    )
