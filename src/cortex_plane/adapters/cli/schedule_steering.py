"""`cortex schedules`: pause, resume, trigger, backfill, next."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.adapters.cli.schedules import Name, Tenant
from cortex_plane.core.tenants import OWN_TENANT


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
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.schedule_views import described

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
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.schedule_views import described
    from cortex_plane.adapters.cli.times import stamp

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
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        slot = await plane.schedules.trigger(name, tenant=tenant)
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
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.times import moment
    from cortex_plane.adapters.system import utc_now

    async with existing_plane(plane_url) as plane:
        until = utc_now() if end is None else moment(end, "end")
        slots = await plane.schedules.backfill(name, moment(start, "start"), until, tenant=tenant)
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
    from cortex_plane.adapters.cli.output import console, print_json, words
    from cortex_plane.adapters.cli.schedule_views import clocks, coming_table, short

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
