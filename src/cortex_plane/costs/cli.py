"""`cortex budgets` and `cortex billing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.costs.model import Budget
    from cortex_plane.grants.model import BillingAccount, UsageTotal


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
    from cortex_plane.cli.output import print_json

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
    from cortex_plane.cli.output import console, one_line_each, print_json, words

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
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        await plane.costs.remove_budget(agent=agent, tenant=tenant, actor=me(), reason=reason)
    if as_json:
        print_json({"agent": agent, "tenant": tenant, "budget": None})
    else:
        print(f"{f'Agent {agent}' if agent else f'Tenant {tenant}'} has no budget any more.")
    return 0


def _remark(budget: Budget) -> Text:
    from cortex_plane.cli.output import words

    if not budget.exhausted:
        return words("")
    return words("paused" if budget.paused else "spent", "red")


# -- billing -----------------------------------------------------------------------------------
# `cortex billing`: who is charged for runs under grants, and what those have used.


async def add(
    name: Annotated[str, Parameter(name="NAME", help="The account's name.")],
    /,
    *,
    virtual_key: Annotated[
        str | None, Parameter(metavar="KEY", help="What its runs are charged to; otherwise one is made.")
    ] = None,
    tenant: Annotated[str, Parameter(metavar="NAME", help="Whose account it is; otherwise the default tenant's.")] = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Add a billing account. One that is there already stays as it is.

    Try:
        cortex billing add research
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        added = await plane.billing.add(name, virtual_key=virtual_key, tenant=tenant)
    if as_json:
        print_json(added)
    else:
        print(f"Account {added.name}, charged to {added.default_virtual_key_id}")
        next_step("To charge it", f"cortex grants add SCOPE --billing-account {added.name}", plane_url)
    return 0


async def list_accounts(
    *,
    tenant: Annotated[str | None, Parameter(metavar="NAME", help="Only this tenant's.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List billing accounts, with what their runs have used.

    Try:
        cortex billing list
    """
    from cortex_plane.cli.output import console, one_line_each, print_json, words

    async with existing_plane(plane_url) as plane:
        accounts, totals = await plane.billing.list(tenant=tenant), await plane.billing.totals()
    if as_json:
        from dataclasses import asdict

        print_json({"accounts": [{**asdict(one), "usage": _of(one, totals)} for one in accounts]})
    elif accounts:
        rows = [
            [
                words(one.tenant),
                words(one.name),
                *(words(f"{_quantity(one, totals, unit):,}") for unit in ("cents", "prompt_tokens", "completion_tokens")),
                words(one.default_virtual_key_id),
            ]
            for one in accounts
        ]
        headings = ["TENANT", "ACCOUNT", "CENTS", "TOKENS IN", "TOKENS OUT", "KEY"]
        console().print(one_line_each(headings, rows, right=[2, 3, 4]))
    else:
        lead = "There are no billing accounts yet; the first grant makes one. To add one"
        next_step(lead, "cortex billing add NAME", plane_url, style="")
    return 0


def _of(account: BillingAccount, totals: list[UsageTotal]) -> dict[str, int]:
    return {one.unit: one.quantity for one in totals if one.billing_account_id == account.id}


def _quantity(account: BillingAccount, totals: list[UsageTotal], unit: str) -> int:
    return _of(account, totals).get(unit, 0)
