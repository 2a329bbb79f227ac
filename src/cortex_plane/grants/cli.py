"""`cortex grants`: add, list, show, revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, Reason, existing_plane, me
from cortex_plane.clock import utc_now
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.console import RenderableType
    from rich.text import Text

    from cortex_plane.grants.model import Grant


GrantId = Annotated[str, Parameter(name="ID", help="The grant's id, or the first part of it.")]


async def add(
    *scopes: Annotated[
        str, Parameter(name="SCOPE", help="What may run: agent:run:NAME, graph:execute:NAME; * at the end for all.")
    ],
    expires: Annotated[
        str | None, Parameter(metavar="TIME", help="Good for so long: 12h, 30d. Otherwise until it is revoked.")
    ] = None,
    max_uses: Annotated[int | None, Parameter(metavar="N", help="Good for so many runs.")] = None,
    user: Annotated[str | None, Parameter(metavar="NAME", help="Who may start runs under it, besides operators.")] = None,
    billing_account: Annotated[str, Parameter(metavar="NAME", help="Who is charged; otherwise default.")] = "default",
    tenant: Annotated[str, Parameter(metavar="NAME", help="For whose work; otherwise the default tenant's.")] = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Allow schedules and services to run something, without anybody's session.

    Try:
        cortex grants add agent:run:report --expires 30d
        cortex grants add "graph:execute:*" --max-uses 100
    """
    from datetime import timedelta

    from cortex_plane.cli.output import duration, print_json

    async with existing_plane(plane_url) as plane:
        until = None if expires is None else utc_now() + timedelta(seconds=duration(expires, "expires"))
        added = await plane.grants.add(
            scopes,
            tenant=tenant,
            billing_account=billing_account,
            expires_at=until,
            max_uses=max_uses,
            user=user,
            created_by=me(),
        )
    if as_json:
        print_json(added)
    else:
        print(f"Added grant {added.id}")
        next_step("To take it back", f"cortex grants revoke {added.id}", plane_url)
    return 0


async def list_grants(
    *,
    tenant: Annotated[str | None, Parameter(metavar="NAME", help="Only this tenant's.")] = None,
    limit: Annotated[int, Parameter(metavar="N", help="How many; otherwise 50.")] = 50,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List grants, newest first.

    Try:
        cortex grants list
    """
    from cortex_plane.cli.output import console, one_line_each, print_json, words

    async with existing_plane(plane_url) as plane:
        found = await plane.grants.list(tenant=tenant, limit=limit)
    if as_json:
        print_json({"grants": found})
    elif found:
        now = utc_now()
        rows = [
            [words(one.id), _standing(one, now), words(_uses(one)), words(one.billing_account), words(", ".join(one.scopes))]
            for one in found
        ]
        console().print(one_line_each(["ID", "STATUS", "USES", "ACCOUNT", "SCOPES"], rows, right=[2]))
    else:
        next_step("There are no grants yet. To add one", "cortex grants add agent:run:NAME", plane_url, style="")
    return 0


async def show(grant_id: GrantId, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one grant, and the schedules under it.

    Try:
        cortex grants show 0197a1b2
    """
    from cortex_plane.cli.output import console, facts, heading, indented, print_json
    from cortex_plane.schedules.cli import described, schedule_table

    async with existing_plane(plane_url) as plane:
        found = await plane.grants.get(grant_id)
        under = [one for one in await plane.schedules.list() if one.grant_id == found.id]
    if as_json:
        from dataclasses import asdict

        print_json({**asdict(found), "schedules": [described(one) for one in under]})
        return 0
    say = console()
    say.print(heading(f"Grant {found.id}"))
    say.print(indented(facts(_facts(found, utc_now()))))
    if under:
        say.print(heading("Schedules"))
        say.print(indented(schedule_table(under, utc_now())))
    return 0


async def revoke(grant_id: GrantId, /, *, reason: Reason = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Take a grant back: its schedules pause, what waits under it is cancelled, what runs is asked to stop.

    Try:
        cortex grants revoke 0197a1b2 --reason "the contract has ended"
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        grant, schedules, jobs = await plane.grants.revoke(grant_id, actor=me(), reason=reason)
    if as_json:
        print_json({"id": grant.id, "revoked_at": grant.revoked_at, "schedules": schedules, "jobs": jobs})
    else:
        print(f"Revoked {grant.id}: {_count(schedules, 'schedule')} paused, {_count(jobs, 'job')} cancelled")
    return 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _uses(grant: Grant) -> str:
    return f"{grant.uses}" if grant.max_uses is None else f"{grant.uses} of {grant.max_uses}"


def _standing(grant: Grant, now: datetime) -> Text:
    from cortex_plane.cli.output import words
    from cortex_plane.durations import rough

    if grant.revoked_at is not None:
        return words("revoked", "red")
    if grant.expires_at is not None and grant.expires_at <= now:
        return words("expired", "yellow")
    if grant.max_uses is not None and grant.uses >= grant.max_uses:
        return words("used up", "yellow")
    return words("good" if grant.expires_at is None else f"good for {rough(grant.expires_at - now)}", "green")


def _facts(grant: Grant, now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    from cortex_plane.cli.output import stamp, words
    from cortex_plane.durations import ago

    yield "status", _standing(grant, now)
    yield "scopes", words(", ".join(grant.scopes))
    yield "uses", words(_uses(grant))
    yield "account", words(grant.billing_account)
    yield "tenant", words(grant.tenant)
    yield "user", words(grant.user_account_id) if grant.user_account_id else None
    yield "expires", f"{stamp(grant.expires_at)}, {ago(grant.expires_at, now)}" if grant.expires_at else None
    yield "revoked", f"{stamp(grant.revoked_at)}, {ago(grant.revoked_at, now)}" if grant.revoked_at else None
    yield "revoked by", words(grant.revoked_by) if grant.revoked_by else None
    yield "why", words(grant.revoke_reason) if grant.revoke_reason else None
    yield "by", words(grant.created_by) if grant.created_by else None
    yield "created", f"{stamp(grant.created_at)}, {ago(grant.created_at, now)}"
