"""`cortex groups`: submit from a file, list, show, cancel."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.errors import EXIT_JOB_FAILED
from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me
from cortex_plane.clock import utc_now
from cortex_plane.errors import InvalidInput, NotFound, UnknownAgent, did_you_mean
from cortex_plane.jobs.cli_options import FILE_FIELDS, FORMS, read
from cortex_plane.jobs.fields import FIELD, Submission
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.console import RenderableType
    from rich.table import Table

    from cortex_plane.groups.model import Group, Member, Tally
    from cortex_plane.groups.service import GroupHandle, GroupService


SETTINGS = ("name", "mode", "on_failure")
GROUP_FIELDS = ("members", "callback", *SETTINGS)
JOB_FIELDS = ("agent", "payload", *FILE_FIELDS)
HOW = 'Write {"members": [{"agent": "greet", "payload": {"name": "Ada"}}, …], "mode": "sequential"}.'


@dataclass(frozen=True, slots=True)
class GroupFile:
    members: list[Submission]
    callback: Submission | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Its name, mode and on_failure, as far as the file says."""

    def place_of(self, agent: str) -> str:
        """The first who asks for this agent, as the file names him."""
        places = (f"members[{place}]" for place, member in enumerate(self.members) if member.agent == agent)
        return next(places, "callback")


def read_group(file: str, tenant: str, created_by: str) -> GroupFile:
    """From a file, or from stdin where its name is `@-`. Values are checked when they are submitted."""
    found = _object(_json(file), "The group", GROUP_FIELDS)
    if not isinstance(found.get("members"), list):
        raise InvalidInput(f"members must be a list of jobs. {HOW}", field="members")
    signed = {"tenant": tenant, "created_by": created_by}
    members = [_submission(member, f"members[{place}]", signed) for place, member in enumerate(found["members"])]
    callback = found.get("callback")
    return GroupFile(
        members,
        None if callback is None else _submission(callback, "callback", signed),
        {name: found[name] for name in SETTINGS if found.get(name) is not None},
    )


def _json(file: str) -> Any:
    from cortex_plane.json import loads_exactly

    try:
        return loads_exactly(sys.stdin.read() if file == "@-" else Path(file).read_text())
    except FileNotFoundError:
        raise NotFound(f"There is no file {file}. You are in {Path.cwd()}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}", field="FILE") from None
    except ValueError as error:
        raise InvalidInput(f"{file} is not valid JSON: {error}.\n{HOW}", field="FILE") from None


def _object(value: Any, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a JSON object, not {value!r:.60}.\n{HOW}", field=where)
    for name in value:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
            raise InvalidInput(f'{where} has no field "{name:.60}".{hint}', field=f"{where}.{name}")
    return value


def _submission(value: Any, where: str, signed: Mapping[str, Any]) -> Submission:
    asked = {name: content for name, content in _object(value, where, JOB_FIELDS).items() if content is not None}
    if "agent" not in asked:
        raise InvalidInput(f"{where}.agent is missing: the name of the agent that is to run.", field=f"{where}.agent")
    for name in [name for name in asked if name in FIELD]:
        try:
            asked[name] = read(FIELD[name], asked[name])
        except InvalidInput:
            how = FORMS[FIELD[name].form]
            raise InvalidInput(f"{where}.{name} is {asked[name]!r:.60}. Write {how}.", field=f"{where}.{name}") from None
    return Submission(**asked, **signed)


# -- group submitting --------------------------------------------------------------------------
# `cortex groups submit`.


async def submit(
    file: Annotated[str, Parameter(name="FILE", help="A file of JSON that describes the group; @- for stdin.")],
    /,
    *,
    tenant: Annotated[str, Parameter(metavar="NAME", help="Whose group it is; otherwise the default tenant's.")] = OWN_TENANT,
    key: Annotated[str | None, Parameter(metavar="KEY", help="Submitted again under the same key, it is the same group.")] = None,
    wait: Annotated[bool, Parameter(help="Wait until it is finished. Exit code 7 unless every member completed.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Submit jobs that belong together: all of them or none.

    The file is {"members": [...]}; name, mode (parallel or sequential), on_failure (stop, skip or
    continue) and callback (a job that is told how the group ended) may be added. A member is
    {"agent": "build", "payload": {"stage": 1}}, with options of `cortex jobs submit` where you want
    them ("queue": "slow", "delay": "5m", "tags": ["x"]), and with job_key and key_mode.

    Try:
        cortex groups submit release.json
        cortex groups submit release.json --wait --json
        cortex groups submit release.json --key night-2026-01-05
    """
    from cortex_plane.cli.output import print_json
    from cortex_plane.groups.model import GroupStatus

    asked = read_group(file, tenant, me())
    async with existing_plane(plane_url) as plane:
        groups = plane.groups
        handle = await _submitted(groups, asked, key)
        if not as_json:
            count = len(handle.jobs)
            print(f"Submitted {count} job{'' if count == 1 else 's'} as group {handle.id}")
        if not wait and not as_json:
            next_step("To look at it", f"cortex groups show {handle.id}", plane_url)
        group = await (handle.wait() if wait else handle.group())
        members = await groups.members(handle.id)
    if as_json:
        print_json({"group": document_of(group), "members": members})
    elif wait:
        print_group(group, members)
    return 0 if not wait or group.status is GroupStatus.COMPLETED else EXIT_JOB_FAILED


async def _submitted(groups: GroupService, asked: GroupFile, key: str | None) -> GroupHandle:
    try:
        return await groups.submit(asked.members, callback=asked.callback, created_by=me(), key=key, **asked.settings)
    except UnknownAgent as unknown:
        place = asked.place_of(unknown.job_type)
        raise NotFound(f"{place}.agent: {unknown}\nIf its app has never run, start it: cortex worker APP") from unknown


# -- groups ------------------------------------------------------------------------------------
# `cortex groups`: list, show, cancel. Submitting has a file of its own.


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
    from cortex_plane.cli.output import console, one_line, one_line_each, print_json, status, words
    from cortex_plane.durations import rough
    from cortex_plane.jobs.states import JobStatus

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
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        group = await plane.groups.get(group_id)
        members = await plane.groups.members(group.id)
    if as_json:
        print_json({"group": document_of(group), "members": members})
    else:
        print_group(group, members)
    return 0


def print_group(group: Group, members: Sequence[Member]) -> None:
    from cortex_plane.cli.output import console, facts, heading, indented, status
    from cortex_plane.jobs.states import JobStatus

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
    from cortex_plane.cli.output import print_json

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
    from cortex_plane.cli.output import stamp, words
    from cortex_plane.durations import ago

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
    from cortex_plane.cli.output import one_line, status, table, words

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
