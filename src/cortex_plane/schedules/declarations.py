"""Schedules that code declares with `@plane.schedule`.

Makes the stored schedules what the code declares: new ones are added, changed ones changed, those that are gone paused.

What an operator has paused, or whose grant was revoked, stays so. Only schedules of this program's own agents are concerned:
other programs declare theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

import structlog

from cortex_plane.clock import Clock, as_datetime
from cortex_plane.errors import InvalidInput
from cortex_plane.grants.model import AGENT_TARGET, GrantRefused, scope_of
from cortex_plane.grants.service import GrantWish, add_grant
from cortex_plane.jobs.model import DEFAULT_TENANT
from cortex_plane.schedules.changes import change_schedule, pause_schedule, resume_schedule
from cortex_plane.schedules.model import Schedule, ScheduleExists, ScheduleTerms, Source
from cortex_plane.schedules.terms import ScheduleWish, add_schedule, check_grant, checked_terms

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

log = structlog.get_logger()

CODE: Source = "code"
GONE = "the code declares it no more"


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    name: str
    terms: ScheduleTerms
    tenant: str = DEFAULT_TENANT


async def declare_schedules(
    store: Store,
    directory: Directory,
    clock: Clock,
    new_id: NewId,
    declared: Sequence[DeclaredSchedule],
    agents: Collection[str],
) -> None:
    _check_names(declared)
    for one in declared:
        await _declare(store, directory, clock, new_id, one)
    wanted = {(await directory.tenant(one.tenant), one.name) for one in declared}
    for schedule in await store.schedules.list():
        target = schedule.terms.graph_id
        is_ours = target.startswith(AGENT_TARGET) and target.removeprefix(AGENT_TARGET) in agents
        if schedule.source == CODE and schedule.enabled and is_ours and (schedule.tenant_id, schedule.name) not in wanted:
            # It may have another name from now on: what was due before still runs.
            await pause_schedule(store, directory, new_id, schedule, actor=CODE, reason=GONE, due_slots="run")


def _check_names(declared: Sequence[DeclaredSchedule]) -> None:
    seen: set[tuple[str, str]] = set()
    for one in declared:
        if (one.tenant, one.name) in seen:
            raise InvalidInput(
                f'There are two schedules named "{one.name}" in the code. Give each its own: @plane.schedule(..., name="...").',
                field="name",
            )
        seen.add((one.tenant, one.name))


async def _declare(store: Store, directory: Directory, clock: Clock, new_id: NewId, one: DeclaredSchedule) -> None:
    stored = await store.schedules.find(await directory.tenant(one.tenant), one.name)
    if stored is None:
        wish = ScheduleWish(one.name, one.terms, tenant=one.tenant, created_by=CODE, source=CODE)
        with suppress(ScheduleExists):  # Another worker has just declared the same.
            await add_schedule(store, directory, clock, new_id, wish)
        return
    if stored.source != CODE:
        raise InvalidInput(
            f'An operator has added a schedule "{one.name}" already. Name the one in the code otherwise, or remove the other: '
            f"cortex schedules remove {quote(one.name)}",
            field="name",
        )
    try:
        await _update(store, directory, clock, new_id, stored, one)
    except GrantRefused as refused:
        log.warning("declared_schedule_left_alone", schedule=one.name, error=str(refused))


async def _update(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, stored: Schedule, one: DeclaredSchedule
) -> None:
    terms = checked_terms(one.terms, as_datetime(clock.now()))
    if terms != stored.terms:
        grant = await _grant(store, directory, clock, new_id, stored, one)
        stored = await change_schedule(store, directory, clock, new_id, stored, terms, grant=grant, actor=CODE)
    if not stored.enabled and stored.paused_by == CODE:
        await resume_schedule(store, directory, clock, new_id, stored, actor=CODE)


async def _grant(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, stored: Schedule, one: DeclaredSchedule
) -> str | None:
    """Code that runs another agent under the same name needs a grant for that one; one that was revoked is not replaced."""
    try:
        await check_grant(store, clock, stored.grant_id, stored.tenant_id, one.terms.graph_id)
    except GrantRefused as refused:
        if refused.code != "scope_missing":
            raise
        wish = GrantWish([scope_of(one.terms.graph_id)], tenant=one.tenant, created_by=CODE)
        return (await add_grant(store, directory, clock, new_id, wish)).id
    return None
