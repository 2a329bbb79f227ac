"""`cortex schedules`: add, list, show, remove."""

from __future__ import annotations

from shlex import quote
from typing import Annotated, Any

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.adapters.cli.redrawing import watchable
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.tenants import OWN_TENANT

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
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.payloads import payload_from
    from cortex_plane.adapters.cli.schedule_views import described, short
    from cortex_plane.adapters.cli.times import duration, moment

    rule, most = _missed(missed)
    terms: dict[str, Any] = {
        "timezone": timezone,
        "input": payload_from(words),
        "missed": rule,
        "most_missed": most,
        "overlap": overlap,
        "jitter_seconds": 0.0 if jitter is None else duration(jitter, "jitter"),
        "starts_at": None if start is None else moment(start, "start"),
        "ends_at": None if end is None else moment(end, "end"),
        "pause_after_failures": pause_after,
    }
    async with existing_plane(plane_url) as plane:
        added = await plane.schedules.add(
            name, target, cron, tenant=tenant, grant=grant, billing_account=billing_account, created_by=me(), **terms
        )
    if as_json:
        print_json(described(added))
    else:
        print(f"Added {added.name}: {short(added)}")
        next_step("To see when it runs", f"cortex schedules next {quote(added.name)}", plane_url)
    return 0


def _missed(text: str) -> tuple[str, int]:
    """`all:5` says how many; `all` alone means a hundred at most."""
    from cortex_plane.core.errors import InvalidInput

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
    from cortex_plane.adapters.cli.output import console, print_json
    from cortex_plane.adapters.cli.schedule_views import described, schedule_table

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
    from cortex_plane.adapters.cli.output import console, facts, heading, indented, print_json
    from cortex_plane.adapters.cli.schedule_views import described, schedule_facts, slot_table

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
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        removed = await plane.schedules.remove(name, tenant=tenant, actor=me())
    if as_json:
        print_json({"id": removed.id, "name": removed.name, "removed": True})
    else:
        print(f"Removed {removed.name}")
        next_step("Its grant is still good. To take it back", f"cortex grants revoke {removed.grant_id}", plane_url)
    return 0
