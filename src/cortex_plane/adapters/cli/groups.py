"""`cortex groups`: list, show, cancel. Submitting has a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.tenants import OWN_TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from rich.console import RenderableType
    from rich.table import Table

    from cortex_plane.core.groups import Group, Member, Tally

GroupIdOrPrefix = Annotated[str, Parameter(name="ID", help="The group's id, or the first part of it.")]
Tenant = Annotated[str, Parameter(metavar="NAME", help="Whose groups; otherwise the default tenant's.")]


async def list_groups(
    *,
    limit: Annotated[int, Parameter(metavar="N", help="How many, up to 1000; otherwise 20.")] = 20,
    before: Annotated[str | None, Parameter(metavar="ID", help="Only groups older than this one: the next page.")] = None,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List groups, newest first.

    Try:
        cortex groups list
        cortex groups list --limit 100 --json
    """
    from cortex_plane.adapters.cli.output import console, one_line, one_line_each, print_json, status, words
    from cortex_plane.adapters.cli.times import rough
    from cortex_plane.core.states import JobStatus

    async with existing_plane(plane_url) as plane:
        found = await plane.groups.list(tenant=tenant, before=before, limit=limit)
    if as_json:
        print_json({"groups": [document_of(group) for group in found]})
    elif found:
        now = utc_now()
        rows = [
            [
                words(group.id),
                status(JobStatus(group.status)),
                words(group.mode),
                words(_progress(group.tally)),
                words(rough(now - group.created_at)),
                one_line(group.name or ""),
            ]
            for group in found
        ]
        console().print(one_line_each(["ID", "STATUS", "MODE", "ENDED", "AGE", "NAME"], rows, right=[3, 4]))
    else:
        print("There are no groups." if before is None else "There are no older groups.")
    return 0


async def show(group_id: GroupIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one group and its members.

    Try:
        cortex groups show 0199a8c2
        cortex groups show 0199a8c2 --json
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        group = await plane.groups.get(group_id)
        members = await plane.groups.members(group.id)
    if as_json:
        print_json({"group": document_of(group), "members": members})
    else:
        print_group(group, members)
    return 0


def print_group(group: Group, members: Sequence[Member]) -> None:
    from cortex_plane.adapters.cli.output import console, facts, heading, indented, status
    from cortex_plane.core.states import JobStatus

    say = console()
    say.print(heading(f"Group {group.id}"), status(JobStatus(group.status)))
    say.print(indented(facts(_facts(group, utc_now()))))
    say.print()
    say.print(heading("Members"))
    say.print(indented(_member_table(members)))


async def cancel(
    group_id: GroupIdOrPrefix,
    /,
    *,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the history of each member.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Cancel every member of a group that has not ended.

    Try:
        cortex groups cancel 0199a8c2 --reason "wrong data"
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        group = await plane.groups.get(group_id)
        cancelled = await plane.groups.cancel(group.id, actor=me(), reason=reason)
    if as_json:
        print_json({"id": group.id, "cancelled": cancelled})
    else:
        print(f"Cancelled {cancelled} member{'' if cancelled == 1 else 's'} of group {group.id}")
        next_step("To look at it", f"cortex groups show {group.id}", plane_url)
    return 0


def document_of(group: Group) -> dict[str, Any]:
    """With the status, which is not stored but follows from the members."""
    from dataclasses import asdict

    return {**asdict(group), "status": group.status}


def _progress(tally: Tally) -> str:
    return f"{tally.ended}/{tally.members}"


def _facts(group: Group, now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    from cortex_plane.adapters.cli.output import words
    from cortex_plane.adapters.cli.times import ago, stamp

    yield "name", words(group.name) if group.name else None
    yield "mode", words(group.mode)
    yield "on failure", words(group.on_failure)
    yield "members", words(_counts(group.tally))
    yield "by", words(group.created_by) if group.created_by else None
    yield "created", f"{stamp(group.created_at)}, {ago(group.created_at, now)}"
    yield "finished", f"{stamp(group.finished_at)}, {ago(group.finished_at, now)}" if group.finished_at else None
    yield "callback", words(group.callback_job_id or group.callback["agent"]) if group.callback else None


def _counts(tally: Tally) -> str:
    named = {
        "completed": tally.completed,
        "failed": tally.failed,
        "cancelled": tally.cancelled,
        "under way": tally.under_way,
        "waiting": tally.waiting,
        "held": tally.held,
    }
    return f"{tally.members}: " + ", ".join(f"{count} {name}" for name, count in named.items() if count)


def _member_table(members: Sequence[Member]) -> Table:
    from cortex_plane.adapters.cli.output import one_line, status, table, words

    rows: list[list[RenderableType]] = [
        [
            words(member.id),
            status(member.status),
            words(member.job_type),
            words(member.attempt),
            one_line(member.error_message, "red") if member.error_message else words("held" if member.held else "", "dim"),
        ]
        for member in members
    ]
    return table(["ID", "STATUS", "AGENT", "TRIES", ""], rows, right=[3])
