"""`cortex billing`: who is charged for runs under grants, and what those have used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane
from cortex_plane.core.tenants import OWN_TENANT

if TYPE_CHECKING:
    from cortex_plane.core.billing import BillingAccount, UsageTotal


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
    from cortex_plane.adapters.cli.output import print_json

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
    from cortex_plane.adapters.cli.output import console, one_line_each, print_json, words

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
