"""`cortex tenants`: who owns jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me
from cortex_plane.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cortex_plane.people.model import TenantOverview


TenantName = Annotated[str, Parameter(name="NAME", help="The tenant's name.")]


async def add(
    name: TenantName,
    /,
    *,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the audit log.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Add a tenant.

    Jobs are submitted for it with --tenant NAME. A tenant keeps its name, and is never deleted.

    Try:
        cortex tenants add acme
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        tenant_id = await plane.tenants.add(name, actor=me(), reason=reason)
    if as_json:
        print_json({"id": tenant_id, "name": name})
    else:
        print(f"Added tenant {name}, {tenant_id}")
    return 0


async def erase(
    name: TenantName,
    /,
    *,
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Yes, erase: it cannot be undone.")] = False,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the audit log.")] = None,
    plane_url: PlaneUrl = None,
) -> int:
    """Remove all that is stored for a tenant.

    Its open jobs are cancelled first.

    Try:
        cortex tenants erase acme --yes
    """
    if not yes:
        raise InvalidInput(f"To erase {name} for good, say so: cortex tenants erase {name} --yes", field="yes")
    async with existing_plane(plane_url) as plane:
        erased = await plane.tenants.erase(name, actor=me(), reason=reason)
    gone = f"{erased.jobs:,} jobs, and words of {erased.audit_entries:,} audit entries"
    print(f"Erased: {gone}. What is left is called {erased.pseudonym}.")
    return 0


async def list_tenants(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List tenants, by name.

    Try:
        cortex tenants list
    """
    from cortex_plane.cli.output import console, one_line_each, print_json, stamp, words

    async with existing_plane(plane_url) as plane:
        tenants = await plane.tenants.list()
    if as_json:
        print_json({"tenants": tenants})
        return 0
    rows = [
        [words(tenant.name), words(tenant.id), words(stamp(tenant.created_at) if tenant.created_at.year > 1970 else "")]
        for tenant in tenants
    ]
    console().print(one_line_each(["NAME", "ID", "ADDED"], rows))
    return 0


async def show(name: TenantName, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one tenant: what runs and waits, what it has cost, what is set for it.

    Try:
        cortex tenants show acme
    """
    from cortex_plane.cli.output import console, facts, heading, indented, print_json, table, words

    async with existing_plane(plane_url) as plane:
        shown = await plane.tenants.get(name)
    if as_json:
        print_json({**_document(shown), "spent_cents": shown.spent_cents})
        return 0
    say = console()
    say.print(heading(f"Tenant {shown.tenant.name}"))
    say.print(indented(facts(_facts(shown))))
    if shown.costs:
        say.print()
        say.print(heading("Costs"))
        rows = [[words(f"{total.cents:,}"), words(total.job_type)] for total in shown.costs]
        say.print(indented(table(["CENTS", "AGENT"], rows, right=[0])))
    return 0


def _document(shown: TenantOverview) -> dict[str, object]:
    return {
        "tenant": shown.tenant,
        "running": shown.running,
        "waiting": dict(shown.waiting),
        "costs": list(shown.costs),
        "control": shown.control,
    }


def _facts(shown: TenantOverview) -> Iterator[tuple[str, RenderableType | None]]:
    from cortex_plane.cli.output import words

    control = shown.control
    waiting = ", ".join(f"{count} {state}" for state, count in sorted(shown.waiting.items()))
    yield "id", words(shown.tenant.id)
    yield "running", words(shown.running)
    yield "waiting", words(waiting or "0")
    yield "spent", words(f"{shown.spent_cents:,} cents")
    if control.budget_cents is not None:
        yield "budget", words(f"{control.budget_cents:,} cents, then {control.on_exhausted}")
    if control.max_running is not None:
        yield "limit", words(f"{control.max_running} at a time")
    if control.paused:
        yield "paused", words(f"by {control.paused_by or 'somebody'}: {control.pause_reason or 'no reason given'}", "yellow")
