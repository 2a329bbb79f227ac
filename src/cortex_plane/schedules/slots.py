"""When a schedule's slots are due, and what becomes of those that nobody started in time. Pure: rule, slot and time go in.

Slots stand in a chain, one job at a time. The job of a slot asks `verdict` whether the slot still runs, and `advance`
where the chain goes on and which slots it leaves out:

  a slot begins      verdict: late beyond the grace, or newer ones are due  ──▶ skipped, missed
  the chain goes on  under forbid when the slot has ended, else when it begins
                     what fell due before the slot began is missed: the `missed` rule says which of it runs
                     what fell due while it ran is skipped: overlap
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from cortex_plane.jobs.model import JobId
from cortex_plane.schedules.cron import CronRule, jitter, kind, next_slot, parse, previous_slot, time_zone, zone_data_version
from cortex_plane.schedules.model import Schedule, ScheduleTerms, SkipReason, Slot, SlotOrigin, slot_id
from cortex_plane.telemetry import trace_from

MISSED_AFTER = timedelta(minutes=5)
"""Under `skip` a slot that could not begin for so long is missed. A worker that restarts does not lose one."""
MOST_RECORDED = 1000
"""Of a long gap, no more slots than these are written down as skipped."""
MOMENT = timedelta(microseconds=1)


class Skipped(NamedTuple):
    slot: datetime
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class Advance:
    """Where the chain goes on: None when the schedule has no further slot."""

    next: datetime | None
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a slot finds when its job comes to begin it. `begin_by` is that of a slot that was settled at a change."""

    origin: SlotOrigin
    others_run: bool
    gate_closed: bool
    now: datetime
    begin_by: datetime | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """What became of a slot that was to begin.

    run        it is running, now or since an earlier look; `others` are the slots whose place it took
    look       not yet: it would take the place of `others`, whose runs may have ended since somebody looked
    ended      it has ended, now or before
    wait       not yet: somebody else runs, or the gate is closed
    superseded the schedule has moved on, or is gone: there is nothing to do
    """

    what: Literal["run", "look", "ended", "wait", "superseded"]
    schedule: Schedule | None = None
    slot: Slot | None = None
    others: tuple[Slot, ...] = ()


def how_to_begin(schedule: Schedule, slot: datetime, found: Circumstances) -> Literal["run", "wait"] | SkipReason:
    """A slot that somebody asked for waits for its turn; one of the rule's own that cannot begin in time is left out."""
    forbidden = found.others_run and schedule.terms.overlap == "forbid"
    if found.origin != "cron":
        if found.begin_by is not None and (found.gate_closed or found.now > found.begin_by):
            return "gate_closed" if found.gate_closed else "missed"
        return "wait" if found.gate_closed or forbidden else "run"
    if found.gate_closed:
        return "gate_closed" if schedule.terms.missed == "skip" else "wait"
    return verdict(schedule, slot, found.now) or ("overlap" if forbidden else "run")


def new_slot(
    schedule: Schedule,
    at: datetime,
    origin: SlotOrigin,
    *,
    reason: SkipReason | None = None,
    job_id: str | None = None,
    begin_by: datetime | None = None,
    requested_by: str | None = None,
) -> Slot:
    """To be written down: left out if there is a reason, otherwise pending."""
    identity = slot_id(schedule.id, at)
    return Slot(
        id=identity,
        schedule_id=schedule.id,
        scheduled_for=at,
        local_time=local_time(schedule.terms, at),
        timezone=schedule.terms.timezone,
        origin=origin,
        status="pending" if reason is None else "skipped",
        reason=reason,
        job_id=None if job_id is None else JobId(job_id),
        trace_id=trace_from(identity),
        begin_by=begin_by,
        requested_by=requested_by,
    )


def verdict(schedule: Schedule, slot: datetime, now: datetime) -> SkipReason | None:
    """Whether a slot that is about to begin is left out."""
    match schedule.terms.missed:
        case "skip":
            return "missed" if now - due_at(schedule, slot) > MISSED_AFTER else None
        case "latest":
            return "missed" if any(_due_after(schedule, slot, now)) else None
        case "all":
            later = sum(1 for _ in islice(_due_after(schedule, slot, now), schedule.terms.most_missed))
            return "missed" if later >= schedule.terms.most_missed else None


def advance(schedule: Schedule, slot: datetime, began_at: datetime, now: datetime) -> Advance:
    """From a slot that began (or was left out) at `began_at` to the next one, as things stand now."""
    due = list(islice(_due_after(schedule, slot, now), MOST_RECORDED))
    missed = [one for one in due if due_at(schedule, one) <= began_at]
    caught_up = _to_catch_up(schedule, slot, began_at) if missed else []
    if caught_up:
        return Advance(caught_up[0], tuple(Skipped(one, "missed") for one in missed if one < caught_up[0]))
    skipped = tuple(Skipped(one, "missed" if one in missed else "overlap") for one in due)
    return Advance(_first_not_due(schedule, slot, now), skipped)


@dataclass(frozen=True, slots=True)
class DueSlots:
    """Slots that were due when their schedule was changed: those that still run, and those that are left out."""

    run: tuple[datetime, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def due_at_change(schedule: Schedule, began_at: datetime | None, now: datetime) -> DueSlots:
    """Settles the slots that are due under the rule that was in force, as the chain would if it went on now. `began_at`: when the
    slot of the chain began, if it has. A slot whose time has come, and that only its jitter holds back, still runs."""
    slot = schedule.next_run_at
    skipped: list[Skipped] = []
    if began_at is not None and slot is not None:
        step = advance(schedule, slot, began_at, now)
        slot, skipped = step.next, list(step.skipped)
    if slot is None or slot > now:
        return DueSlots(skipped=tuple(skipped))
    due = [slot] if due_at(schedule, slot) <= now else []
    due += islice(_due_after(schedule, slot, now), MOST_RECORDED - len(due))
    run = _still_to_run(schedule, slot, now)
    skipped += [Skipped(one, "missed") for one in due if one not in run]
    return DueSlots((*sorted(run), *_held_back(schedule, slot, now)), tuple(skipped))


def _still_to_run(schedule: Schedule, slot: datetime, now: datetime) -> set[datetime]:
    """Of the slots that are due from this one on, none of which has begun."""
    if schedule.terms.missed == "skip":
        late = now - due_at(schedule, slot)
        return {slot} if timedelta() <= late <= MISSED_AFTER else set()
    wanted = 1 if schedule.terms.missed == "latest" else schedule.terms.most_missed
    return set(islice(_due_before(schedule, now, slot - MOMENT), wanted))


def _held_back(schedule: Schedule, slot: datetime, now: datetime) -> list[datetime]:
    spread = timedelta(seconds=schedule.terms.jitter_seconds)
    reached = takewhile(lambda one: one <= now, _slots_after(schedule.terms, max(slot - MOMENT, now - spread)))
    return [one for one in reached if due_at(schedule, one) > now]


def begin_by(schedule: Schedule, slot: datetime) -> datetime | None:
    """When a slot that was settled at a change is missed after all: under `skip`, as any other; else it waits for its turn."""
    return due_at(schedule, slot) + MISSED_AFTER if schedule.terms.missed == "skip" else None


def first_slot(terms: ScheduleTerms, after: datetime) -> datetime | None:
    """The first slot after an instant, within the schedule's start and end."""
    rule, zone = _timeline(terms.cron, terms.timezone)
    if terms.starts_at is not None and terms.starts_at > after:
        after = terms.starts_at - MOMENT
    found = next_slot(rule, zone, after)
    return None if found is None or (terms.ends_at is not None and found >= terms.ends_at) else found


def recomputed(schedule: Schedule, last: Slot | None, now: datetime) -> datetime | None:
    """The next slot by a changed rule, zone or time-zone data. A time of day that has run does not come again because the
    zone's clocks were decreed to show it at another instant; in another zone it does."""
    terms = schedule.terms
    found = first_slot(terms, now if last is None else max(now, last.scheduled_for))
    fixed = kind(_timeline(terms.cron, terms.timezone)[0]) == "fixed"
    decreed = fixed and last is not None and last.timezone == terms.timezone
    while decreed and found is not None and last is not None and local_time(terms, found) == last.local_time:
        found = first_slot(terms, found)
    return found


def standing_at(schedule: Schedule, slot: datetime | None) -> Schedule:
    """The schedule with its chain at this slot."""
    return replace(schedule, next_run_at=slot, zone_data=zone_data_version())


def coming(terms: ScheduleTerms, after: datetime, count: int, *, before: datetime | None = None) -> list[datetime]:
    """At most so many; none at `before` or later, and none of those is reckoned."""
    slots = _slots_after(terms, after)
    return list(islice(slots if before is None else takewhile(lambda slot: slot < before, slots), count))


def due_at(schedule: Schedule, slot: datetime) -> datetime:
    """When a slot's job may begin: its own time, and what spreads schedules that are due together."""
    if not schedule.terms.jitter_seconds:
        return slot
    return slot + timedelta(seconds=jitter(schedule.id, slot, schedule.terms.jitter_seconds))


def local_time(terms: ScheduleTerms, slot: datetime) -> str:
    """What the clocks of the zone show; with their offset where a rule follows real time and an hour may come twice."""
    rule, zone = _timeline(terms.cron, terms.timezone)
    shown = slot.astimezone(zone)
    return (shown.replace(tzinfo=None) if kind(rule) == "fixed" else shown).isoformat()


def _to_catch_up(schedule: Schedule, slot: datetime, began_at: datetime) -> list[datetime]:
    """Of what fell due before the slot began: what the `missed` rule still wants to run, oldest first."""
    terms = schedule.terms
    wanted = {"skip": 0, "latest": 1, "all": terms.most_missed}[terms.missed]
    newest = islice(_due_before(schedule, began_at, slot), wanted)
    return sorted(newest)


def _due_after(schedule: Schedule, slot: datetime, now: datetime) -> Iterator[datetime]:
    for found in _slots_after(schedule.terms, slot):
        if found > now:
            return
        if due_at(schedule, found) <= now:
            yield found


def _due_before(schedule: Schedule, now: datetime, slot: datetime) -> Iterator[datetime]:
    """Newest first, down to the slot itself, which is not among them."""
    rule, zone = _timeline(schedule.terms.cron, schedule.terms.timezone)
    ends_at = schedule.terms.ends_at
    found = previous_slot(rule, zone, now + MOMENT if ends_at is None else min(now + MOMENT, ends_at))
    while found is not None and found > slot:
        if due_at(schedule, found) <= now:
            yield found
        found = previous_slot(rule, zone, found)


def _first_not_due(schedule: Schedule, slot: datetime, now: datetime) -> datetime | None:
    spread = timedelta(seconds=schedule.terms.jitter_seconds)
    for found in _slots_after(schedule.terms, max(slot, now - spread)):
        if due_at(schedule, found) > now:
            return found
    return None


def _slots_after(terms: ScheduleTerms, after: datetime) -> Iterator[datetime]:
    found = first_slot(terms, after)
    while found is not None:
        yield found
        found = first_slot(terms, found)


@lru_cache(maxsize=4096)
def _timeline(cron: str, timezone: str) -> tuple[CronRule, ZoneInfo]:
    return parse(cron), time_zone(timezone)


def utc(moment: datetime) -> datetime:
    """A datetime without a zone is taken to be in UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
