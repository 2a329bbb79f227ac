"""`cortex schedules`: add, list, show, next, pause, resume, trigger, backfill, remove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, Reason, existing_plane, me
from cortex_plane.cli.watch import watchable
from cortex_plane.clock import utc_now
from cortex_plane.people.model import OWN_TENANT
from cortex_plane.schedules.cron import time_zone
from cortex_plane.schedules.model import Schedule, Slot, schedule_view

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text


LOOKS = {
    "pending": ("○", "blue"),
    "running": ("▶", "cyan"),
    "success": ("✓", "green"),
    "error": ("✗", "red"),
    "skipped": ("⊘", "bright_black"),
}


def short(schedule: Schedule) -> str:
    """`Every weekday at 09:00, Europe/Berlin`."""
    return schedule_view(schedule).description


def described(schedule: Schedule) -> dict[str, Any]:
    """For programs: the schedule with its rules in words."""
    from dataclasses import asdict

    return asdict(schedule_view(schedule))


def schedule_table(schedules: Sequence[Schedule], now: datetime) -> Table:
    from cortex_plane.cli.output import one_line_each, words

    rows = [
        [words(one.name), words(one.terms.graph_id), words(one.terms.cron), _next(one, now), words(short(one))]
        for one in schedules
    ]
    return one_line_each(["NAME", "TARGET", "CRON", "NEXT", "WHEN"], rows)


def _next(schedule: Schedule, now: datetime) -> Text:
    from cortex_plane.cli.output import words
    from cortex_plane.durations import rough

    if not schedule.enabled:
        return words("paused", "yellow")
    if schedule.next_run_at is None:
        return words("never", "dim")
    return words("now" if schedule.next_run_at <= now else f"in {rough(schedule.next_run_at - now)}")


def schedule_facts(schedule: Schedule, now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    from cortex_plane.cli.output import document, stamp, words
    from cortex_plane.durations import ago

    terms = schedule.terms
    yield "target", words(terms.graph_id)
    yield "rule", words(f"{terms.cron}  ({short(schedule)})")
    one = schedule_view(schedule)
    yield "clocks", words(f"{one.daylight_saving_rule}: {one.daylight_saving}")
    yield "input", document(terms.input) if terms.input else None
    yield "next", _when(schedule, now)
    yield "last", f"{stamp(schedule.last_run_at)}, {ago(schedule.last_run_at, now)}" if schedule.last_run_at else None
    yield "missed", f"all, up to {terms.most_missed}" if terms.missed == "all" else terms.missed
    yield "overlap", terms.overlap
    yield "jitter", f"up to {terms.jitter_seconds:g} s" if terms.jitter_seconds else None
    yield "from", stamp(terms.starts_at) if terms.starts_at else None
    yield "until", stamp(terms.ends_at) if terms.ends_at else None
    yield "pauses", f"after {terms.pause_after_failures} failures in a row" if terms.pause_after_failures else None
    yield "failures", words(f"{schedule.failures} in a row", "red") if schedule.failures else None
    yield "grant", words(schedule.grant_id)
    yield "by", words(schedule.created_by) if schedule.created_by else None
    yield "id", words(schedule.id)


def _when(schedule: Schedule, now: datetime) -> RenderableType:
    from cortex_plane.cli.output import stamp, words
    from cortex_plane.durations import ago

    if not schedule.enabled:
        by = f" by {schedule.paused_by}" if schedule.paused_by else ""
        reason = f": {schedule.pause_reason}" if schedule.pause_reason else ""
        return words(f"paused{by}{reason}", "yellow")
    at = schedule.next_run_at
    return words("never" if at is None else f"{stamp(at)}, {ago(at, now)}")


def slot_table(slots: Sequence[Slot]) -> Table:
    from cortex_plane.cli.output import one_line, one_line_each, stamp, words

    rows = [
        [
            words(stamp(slot.scheduled_for)),
            words(" ".join((LOOKS[slot.status][0], slot.status)), LOOKS[slot.status][1]),
            words(slot.origin),
            words(slot.run_id or "-"),
            one_line(slot.reason or slot.error_message or ""),
        ]
        for slot in slots
    ]
    return one_line_each(["SLOT", "STATUS", "BY", "RUN", "WHY"], rows)


def coming_table(schedule: Schedule, slots: Sequence[datetime]) -> Table:
    from cortex_plane.cli.output import table, words

    zone = time_zone(schedule.terms.timezone)
    rows = [
        [words(f"{slot.astimezone(zone):%a %Y-%m-%d %H:%M %Z}"), words(f"{slot.astimezone(UTC):%Y-%m-%d %H:%M} UTC", "dim")]
        for slot in slots
    ]
    return table([schedule.terms.timezone.upper(), "UTC"], rows)


def clocks(schedule: Schedule) -> str:
    """What becomes of it when the clocks change, by the name of the rule."""
    one = schedule_view(schedule)
    return f"Daylight saving ({one.daylight_saving_rule}): {one.daylight_saving}"


# -- schedules ---------------------------------------------------------------------------------
# `cortex schedules`: add, list, show, remove.


Name = Annotated[str, Parameter(name="NAME", help="The schedule's name.")]
Tenant = Annotated[str, Parameter(metavar="NAME", help="Whose schedule it is; otherwise the default tenant's.")]


async def add(
    name: Name,
    target: Annotated[str, Parameter(name="TARGET", help="What runs: agent:NAME, template:NAME or the id of a graph.")],
    cron: Annotated[str, Parameter(name="CRON", help="When: minute hour day month weekday, in quotes; or @daily and the like.")],
    /,
    *words: Annotated[str, Parameter(name="INPUT", help="Its input: key=value pairs, one JSON object, or @file.json.")],
    timezone: Annotated[str, Parameter(metavar="ZONE", help="On whose clocks: Europe/Berlin. Otherwise UTC.")] = "UTC",
    missed: Annotated[
        str, Parameter(metavar="RULE", help="Slots that nobody started in time: skip, latest, all or all:N.")
    ] = "skip",
    overlap: Annotated[str, Parameter(metavar="RULE", help="While an earlier slot runs: forbid, allow or replace.")] = "forbid",
    jitter: Annotated[str | None, Parameter(metavar="TIME", help="Begin up to this much later: 90s, 5m.")] = None,
    start: Annotated[str | None, Parameter(metavar="WHEN", help="No slot before: 2026-01-05T09:00, in UTC.")] = None,
    end: Annotated[str | None, Parameter(metavar="WHEN", help="No slot from then on.")] = None,
    pause_after: Annotated[int | None, Parameter(metavar="N", help="Pause after so many failures in a row.")] = None,
    grant: Annotated[str | None, Parameter(metavar="ID", help="Under which grant; otherwise one is made for the target.")] = None,
    billing_account: Annotated[str, Parameter(metavar="NAME", help="Who is charged; otherwise default.")] = "default",
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Run an agent, a template or a graph by a cron rule.

    A rule in a time zone runs once on every day at each of its times, also when the clocks change. The
    agent must be known: start a worker that has it first.

    Try:
        cortex schedules add nightly agent:report "0 3 * * *" kind=full
        cortex schedules add standup agent:remind "0 9 * * mon-fri" --timezone Europe/Berlin
    """
    from cortex_plane.cli.output import duration, moment, print_json, with_payload

    rule, most = _missed(missed)
    terms: dict[str, Any] = {
        "timezone": timezone,
        "missed": rule,
        "most_missed": most,
        "overlap": overlap,
        "jitter_seconds": 0.0 if jitter is None else duration(jitter, "jitter"),
        "starts_at": None if start is None else moment(start, "start"),
        "ends_at": None if end is None else moment(end, "end"),
        "pause_after_failures": pause_after,
    }
    async with existing_plane(plane_url) as plane:
        who: dict[str, Any] = {"tenant": tenant, "grant": grant, "billing_account": billing_account, "created_by": me()}
        added = await with_payload(words, lambda given: plane.schedules.add(name, target, cron, input=given, **who, **terms))
    if as_json:
        print_json(described(added))
    else:
        print(f"Added {added.name}: {short(added)}")
        next_step("To see when it runs", f"cortex schedules next {quote(added.name)}", plane_url)
    return 0


def _missed(text: str) -> tuple[str, int]:
    """`all:5` says how many; `all` alone means a hundred at most."""
    from cortex_plane.errors import InvalidInput

    rule, colon, number = text.partition(":")
    if not colon:
        return rule, 100 if rule == "all" else 1
    if rule != "all" or not number.isdigit():
        raise InvalidInput(f"--missed {text!r:.40} is not a rule. Write skip, latest, all or all:5.", field="missed")
    return rule, int(number)


@watchable
async def list_schedules(
    *,
    tenant: Annotated[str | None, Parameter(metavar="NAME", help="Only this tenant's.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List schedules by name.

    Try:
        cortex schedules list
    """
    from cortex_plane.cli.output import console, print_json

    async with existing_plane(plane_url) as plane:
        found = await plane.schedules.list(tenant=tenant)
    if as_json:
        print_json({"schedules": [described(one) for one in found]})
    elif found:
        console().print(schedule_table(found, utc_now()))
    else:
        lead = "There are no schedules yet. To add one"
        next_step(lead, 'cortex schedules add NAME agent:AGENT "0 3 * * *"', plane_url, style="")
    return 0


async def show(
    name: Name,
    /,
    *,
    slots: Annotated[int, Parameter(metavar="N", help="How many of its last slots; otherwise 10.")] = 10,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Show one schedule, and what became of its last slots.

    Try:
        cortex schedules show nightly
    """
    from cortex_plane.cli.output import console, facts, heading, indented, print_json

    async with existing_plane(plane_url) as plane:
        found = await plane.schedules.get(name, tenant=tenant)
        past = await plane.schedules.slots(found.id, tenant=tenant, limit=slots)
    if as_json:
        print_json({**described(found), "slots": past})
        return 0
    say = console()
    say.print(heading(f"Schedule {found.name}"))
    say.print(indented(facts(schedule_facts(found, utc_now()))))
    if past:
        say.print(heading("Slots"))
        say.print(indented(slot_table(past)))
    return 0


async def remove(name: Name, /, *, tenant: Tenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Remove a schedule and the record of its slots. What it started goes on.

    Try:
        cortex schedules remove nightly
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        removed = await plane.schedules.remove(name, tenant=tenant, actor=me())
    if as_json:
        print_json({"id": removed.id, "name": removed.name, "removed": True})
    else:
        print(f"Removed {removed.name}")
        next_step("Its grant is still good. To take it back", f"cortex grants revoke {removed.grant_id}", plane_url)
    return 0


# -- schedule steering -------------------------------------------------------------------------
# `cortex schedules`: pause, resume, trigger, backfill, next.


async def pause(
    name: Name,
    /,
    *,
    reason: Reason = None,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Pause a schedule: no further slot of it begins. One that runs goes on.

    Try:
        cortex schedules pause nightly --reason "the warehouse moves"
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        before = await plane.schedules.get(name, tenant=tenant)
        after = await plane.schedules.pause(name, tenant=tenant, actor=me(), reason=reason)
    if as_json:
        print_json(described(after))
    else:
        print(f"Paused {after.name}" if before.enabled else f"{after.name} was paused already")
        next_step("To let it go on", f"cortex schedules resume {quote(after.name)}", plane_url)
    return 0


async def resume(
    name: Name,
    /,
    *,
    reason: Reason = None,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Let a paused schedule go on, from its next slot.

    What was due meanwhile does not run. To run it after all: cortex schedules backfill NAME --start WHEN

    Try:
        cortex schedules resume nightly
    """
    from cortex_plane.cli.output import print_json, stamp

    async with existing_plane(plane_url) as plane:
        before = await plane.schedules.get(name, tenant=tenant)
        after = await plane.schedules.resume(name, tenant=tenant, actor=me(), reason=reason)
    if as_json:
        print_json(described(after))
    elif before.enabled:
        print(f"{after.name} was not paused")
    else:
        print(f"Resumed {after.name}; next {stamp(after.next_run_at) if after.next_run_at else 'never'}")
    return 0


async def trigger(name: Name, /, *, tenant: Tenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Run one slot now, whatever the rule says. Its grant is used and charged as for any other.

    Try:
        cortex schedules trigger nightly
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        slot = await plane.schedules.trigger(name, tenant=tenant, actor=me())
    if as_json:
        print_json(slot)
    else:
        print(f"Triggered {name}")
        next_step("To see what became of it", f"cortex schedules show {quote(name)}", plane_url)
    return 0


async def backfill(
    name: Name,
    /,
    *,
    start: Annotated[str, Parameter(metavar="WHEN", help="From this slot on: 2026-01-05T09:00, in UTC.")],
    end: Annotated[str | None, Parameter(metavar="WHEN", help="Before this; otherwise until now.")] = None,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Run the slots of a past range that did not run. Each is charged.

    Slots that have run, with whatever outcome, are not run again.

    Try:
        cortex schedules backfill nightly --start 2026-01-05 --end 2026-01-12
    """
    from cortex_plane.cli.output import moment, print_json
    from cortex_plane.clock import utc_now

    async with existing_plane(plane_url) as plane:
        until = utc_now() if end is None else moment(end, "end")
        slots = await plane.schedules.backfill(name, moment(start, "start"), until, tenant=tenant, actor=me())
    if as_json:
        print_json({"slots": slots})
    else:
        print(f"{len(slots)} {'slot' if len(slots) == 1 else 'slots'} of {name} will run")
        next_step("To see what becomes of them", f"cortex schedules show {quote(name)}", plane_url)
    return 0


async def coming(
    name: Name,
    /,
    *,
    count: Annotated[int, Parameter(metavar="N", help="How many; otherwise 5.")] = 5,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Show the coming slots of a schedule, in its zone and in UTC.

    Try:
        cortex schedules next nightly
    """
    from cortex_plane.cli.output import console, print_json, words

    async with existing_plane(plane_url) as plane:
        schedule = await plane.schedules.get(name, tenant=tenant)
        slots = await plane.schedules.next(schedule.id, count, tenant=tenant)
    if as_json:
        print_json({"name": schedule.name, "timezone": schedule.terms.timezone, "slots": slots})
        return 0
    say = console()
    say.print(words(short(schedule)))
    say.print(coming_table(schedule, slots))
    say.print(words(clocks(schedule), "dim"))
    if not schedule.enabled:
        lead = "It is paused. To let it go on"
        next_step(lead, f"cortex schedules resume {quote(schedule.name)}", plane_url, style="yellow")
    return 0
