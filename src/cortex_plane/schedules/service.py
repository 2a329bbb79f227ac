"""Schedules as a program uses them: `plane.schedules.add("nightly", "agent:report", "0 3 * * *")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from cortex_plane.agents.agent import Agent
from cortex_plane.clock import as_datetime
from cortex_plane.errors import InvalidInput, check_options
from cortex_plane.jobs.model import DEFAULT_TENANT
from cortex_plane.schedules.changes import change_schedule, find_schedule, pause_schedule, remove_schedule, resume_schedule
from cortex_plane.schedules.cron import parse, time_zone
from cortex_plane.schedules.declarations import DeclaredSchedule, declare_schedules
from cortex_plane.schedules.model import MissedRule, OverlapRule, Schedule, ScheduleTerms, Slot
from cortex_plane.schedules.runner import backfill_schedule, trigger_schedule
from cortex_plane.schedules.slots import coming
from cortex_plane.schedules.terms import ScheduleWish, add_schedule

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


MOST_COMING = 1_000
Decorated = TypeVar("Decorated")


class TermsOptions(TypedDict, total=False):
    """When and how a schedule runs, besides its rule."""

    timezone: str
    input: Mapping[str, Any]
    missed: MissedRule
    most_missed: int
    overlap: OverlapRule
    jitter_seconds: float
    starts_at: datetime | None
    ends_at: datetime | None
    pause_after_failures: int | None


TERMS_OPTIONS = frozenset(TermsOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A schedule in code. What it stands over is an agent, or a function that is made one."""

    over: Any
    cron: str
    name: str | None
    tenant: str
    options: TermsOptions


class ScheduleService:
    """Cron rules and what runs by them. A schedule is named by its name or its id."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._declared: list[Declaration] = []

    def declare(
        self, cron: str, *, name: str | None = None, tenant: str = DEFAULT_TENANT, **terms: Unpack[TermsOptions]
    ) -> Callable[[Decorated], Decorated]:
        """See `plane.schedule`."""
        parse(cron)
        time_zone(terms.get("timezone", "UTC"))
        terms_of("agent:checked", cron, terms)

        def remember(over: Decorated) -> Decorated:
            self._declared.append(Declaration(over, cron, name, tenant, terms))
            return over

        return remember

    async def sync_declared(self) -> None:
        """Makes the stored schedules what this program's code declares. Workers do so when they start."""
        plane = self._plane
        declared = [self._resolved(one) for one in self._declared]
        await declare_schedules(self._plane.store, self._plane.directory, plane.clock, plane._ids, declared, plane.agents)

    def _resolved(self, one: Declaration) -> DeclaredSchedule:
        agents = self._plane.agents
        agent = getattr(one.over, "name", None) if isinstance(one.over, Agent) else None
        agent = agent or next((name for name, code in agents.items() if code.handler is one.over), None)
        if agent is None:
            said = getattr(one.over, "__name__", repr(one.over))
            raise InvalidInput(f"@plane.schedule stands over {said}, which is no agent. Add @plane.agent.", field="schedule")
        return DeclaredSchedule(one.name or agent, terms_of(f"agent:{agent}", one.cron, one.options), one.tenant)

    async def add(
        self,
        name: str,
        target: str,
        cron: str,
        *,
        tenant: str = DEFAULT_TENANT,
        grant: str | None = None,
        billing_account: str = "default",
        created_by: str | None = None,
        held: Sequence[str] | None = None,
        **terms: Unpack[TermsOptions],
    ) -> Schedule:
        """Target: `agent:NAME`, `template:NAME` or the id of a graph. Without a grant, one is made for exactly that."""
        plane = self._plane
        wish = ScheduleWish(
            name,
            terms_of(target, cron, terms),
            tenant=tenant,
            grant=grant,
            billing_account=billing_account,
            created_by=created_by,
            held=held,
        )
        return await add_schedule(self._plane.store, self._plane.directory, plane.clock, plane._ids, wish)

    async def get(self, name_or_id: str, *, tenant: str = DEFAULT_TENANT, removed: bool = False) -> Schedule:
        """By its id also one that was removed, with `removed`."""
        return await find_schedule(self._plane.store, self._plane.directory, name_or_id, tenant=tenant, removed=removed)

    async def change(
        self,
        name_or_id: str,
        *,
        tenant: str = DEFAULT_TENANT,
        target: str | None = None,
        cron: str | None = None,
        grant: str | None = None,
        actor: str | None = None,
        **terms: Unpack[TermsOptions],
    ) -> Schedule:
        """What is left out stays as it is."""
        check_options("A schedule", terms, TERMS_OPTIONS)
        plane = self._plane
        schedule = await self.get(name_or_id, tenant=tenant)
        changed: dict[str, Any] = dict(terms)
        if target is not None:
            changed["graph_id"] = target
        if cron is not None:
            changed["cron"] = cron
        wanted = replace(schedule.terms, **changed)
        return await change_schedule(
            self._plane.store, self._plane.directory, plane.clock, plane._ids, schedule, wanted, grant=grant, actor=actor
        )

    async def pause(
        self, name_or_id: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None, reason: str | None = None
    ) -> Schedule:
        schedule = await self.get(name_or_id, tenant=tenant)
        return await pause_schedule(
            self._plane.store, self._plane.directory, self._plane._ids, schedule, actor=actor, reason=reason
        )

    async def resume(
        self, name_or_id: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None, reason: str | None = None
    ) -> Schedule:
        plane = self._plane
        schedule = await self.get(name_or_id, tenant=tenant)
        return await resume_schedule(
            self._plane.store, self._plane.directory, plane.clock, plane._ids, schedule, actor=actor, reason=reason
        )

    async def trigger(self, name_or_id: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> Slot:
        """One slot more, now; also of a schedule that is paused. `actor` stands behind what it runs."""
        plane = self._plane
        schedule = await self.get(name_or_id, tenant=tenant)
        return await trigger_schedule(self._plane.store, self._plane.directory, plane.clock, plane._ids, schedule, actor=actor)

    async def backfill(
        self, name_or_id: str, start: datetime, end: datetime, *, tenant: str = DEFAULT_TENANT, actor: str | None = None
    ) -> list[Slot]:
        """Runs the slots of a past range that did not run. They are charged as any other."""
        plane = self._plane
        schedule = await self.get(name_or_id, tenant=tenant)
        return await backfill_schedule(
            self._plane.store, self._plane.directory, plane.clock, plane._ids, schedule, start, end, actor=actor
        )

    async def remove(self, name_or_id: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> Schedule:
        """What became of its slots stays, under its id: `slots(schedule.id)`. A grant that has served it alone is revoked."""
        schedule = await self.get(name_or_id, tenant=tenant)
        await remove_schedule(self._plane.store, schedule, actor=actor)
        return await self.get(schedule.id, tenant=tenant, removed=True)

    async def slots(
        self, name_or_id: str, *, tenant: str = DEFAULT_TENANT, before: datetime | None = None, limit: int = 50
    ) -> list[Slot]:
        """What became of its slots, newest first; by its id also of a schedule that was removed."""
        schedule = await self.get(name_or_id, tenant=tenant, removed=True)
        return await self._plane.store.slots.list(schedule.id, before=before, limit=_count(limit, "limit"))

    async def next(self, name_or_id: str, count: int = 5, *, tenant: str = DEFAULT_TENANT) -> list[datetime]:
        """The coming slots, whether the schedule is paused or not."""
        schedule = await self.get(name_or_id, tenant=tenant)
        return coming(schedule.terms, as_datetime(self._plane.clock.now()), _count(count, "count"))

    async def list(self, *, tenant: str | None = None) -> list[Schedule]:
        """By name."""
        return await self._plane.store.schedules.list(None if tenant is None else await self._plane.directory.tenant(tenant))


def terms_of(target: str, cron: str, options: TermsOptions) -> ScheduleTerms:
    check_options("A schedule", options, TERMS_OPTIONS)
    terms: dict[str, Any] = dict(options)
    return ScheduleTerms(target, cron, **terms)


def _count(value: int, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_COMING:
        raise InvalidInput(f"{field} must be a whole number from 1 to {MOST_COMING:,}, not {value!r:.40}.", field=field)
    return value
