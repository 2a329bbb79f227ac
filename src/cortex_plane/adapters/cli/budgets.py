"""`cortex budgets`: what the jobs of an agent or a tenant may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, me

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.core.budgets import Budget

OfAgent = Annotated[str | None, Parameter(metavar="NAME", help="The budget of this agent.")]
OfTenant = Annotated[str | None, Parameter(metavar="NAME", help="The budget of this tenant.")]
Reason = Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the audit log.")]


async def set_budget(
    cents: Annotated[int, Parameter(name="CENTS", help="What it may cost, in whole cents, counted from the first ever spent.")],
    /,
    *,
    agent: OfAgent = None,
    tenant: OfTenant = None,
    on_exhausted: Annotated[
        Literal["refuse", "pause"],
        Parameter(metavar="WHAT", help="When it is spent: refuse new jobs, or pause, so that nothing runs. Otherwise refuse."),
    ] = "refuse",
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Set what an agent or a tenant may spend.

    Handlers say what they spend with ctx.cost(cents). With a higher budget, what the old one had paused goes on.

    Try:
        cortex budgets set 5000 --agent researcher
        cortex budgets set 100000 --tenant acme --on-exhausted pause
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        budget = await plane.costs.set_budget(
            cents, agent=agent, tenant=tenant, on_exhausted=on_exhausted, actor=me(), reason=reason
        )
    if as_json:
        print_json(budget)
    else:
        print(f"{budget.scope.capitalize()} {budget.label} may spend {budget.cents:,} cents; {budget.spent_cents:,} are spent.")
        if budget.exhausted:
            print("It is spent already: " + ("it is paused now." if budget.paused else "new jobs are refused from now on."))
    return 0


async def list_budgets(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List budgets, with what is spent of them.

    Try:
        cortex budgets list
    """
    from cortex_plane.adapters.cli.output import console, one_line_each, print_json, words

    async with existing_plane(plane_url) as plane:
        budgets = await plane.costs.budgets()
    if as_json:
        print_json({"budgets": budgets})
    elif budgets:
        rows = [
            [
                words(b.scope),
                words(b.label),
                words(f"{b.spent_cents:,}"),
                words(f"{b.cents:,}"),
                words(b.on_exhausted),
                _remark(b),
            ]
            for b in budgets
        ]
        console().print(one_line_each(["OF", "NAME", "SPENT", "BUDGET", "THEN", ""], rows, right=[2, 3]))
    else:
        next_step("There are no budgets. To set one", "cortex budgets set CENTS --agent NAME", plane_url, style="")
    return 0


async def remove_budget(
    *,
    agent: OfAgent = None,
    tenant: OfTenant = None,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Remove the budget of an agent or a tenant.

    What the budget had paused goes on; what somebody else has paused does not.

    Try:
        cortex budgets remove --tenant acme
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        await plane.costs.remove_budget(agent=agent, tenant=tenant, actor=me(), reason=reason)
    if as_json:
        print_json({"agent": agent, "tenant": tenant, "budget": None})
    else:
        print(f"{f'Agent {agent}' if agent else f'Tenant {tenant}'} has no budget any more.")
    return 0


def _remark(budget: Budget) -> Text:
    from cortex_plane.adapters.cli.output import words

    if not budget.exhausted:
        return words("")
    return words("paused" if budget.paused else "spent", "red")
