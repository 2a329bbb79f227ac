"""`cortex approvals`: list, show, approve, deny, remind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.approvals.views import state_of
from cortex_plane.cli.hints import next_step
from cortex_plane.cli.output import console, document, facts, heading, indented, one_line, one_line_each, stamp, table, words
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me
from cortex_plane.cli.watch import watchable
from cortex_plane.clock import utc_now
from cortex_plane.durations import ago

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.approvals.decisions import Answer
    from cortex_plane.approvals.model import ApprovalRequest, Verdict, Vote
    from cortex_plane.approvals.views import NotificationView
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


STYLES = {
    "open": "magenta",
    "approved": "green",
    "denied": "red",
    "expired": "yellow",
    "cancelled": "bright_black",
    "superseded": "bright_black",
}


def approval_table(found: Sequence[ApprovalRequest]) -> Any:
    now = utc_now()
    rows: list[list[Text]] = [
        [
            words(one.id),
            words(state_of(one), STYLES[state_of(one)]),
            words(one.agent),
            words(f"{one.votes}/{one.quorum}"),
            words(ago(one.expires_at, now) if one.is_open else stamp(one.closed_at) if one.closed_at else ""),
            one_line(one.action_summary),
        ]
        for one in found
    ]
    return one_line_each(["ID", "STATE", "AGENT", "VOTES", "UNTIL", "WHAT"], rows)


def print_approval(
    request: ApprovalRequest, votes: Sequence[Vote], people: Sequence[str], told: Sequence[NotificationView]
) -> None:
    state = state_of(request)
    asked = ", ".join(people) if people else "a group" if request.approvers.groups else "every approver of the tenant"
    pairs = [
        ("Approval", words(request.id)),
        ("State", words(state, STYLES[state])),
        ("Summary", words(request.action_summary.strip())),
        ("Note", words(request.why_again) if request.why_again else None),
        ("Supersedes", None if request.supersedes is None else words(request.supersedes.id)),
        ("Details", None if request.action_details is None else document(request.action_details)),
        ("Edited details", None if request.edited_details is None else document(request.edited_details)),
        ("Requested by", words(f"{request.agent}, job {request.job_id}")),
        ("Requested", words(stamp(request.created_at))),
        ("Expires", words(stamp(request.expires_at))),
        ("Approvers", words(asked)),
        ("Votes", words(f"{request.votes} of {request.quorum}")),
        ("Decided by", None if request.decided_by_name is None else words(request.decided_by_name)),
        ("Reason", None if request.reason is None else words(request.reason)),
    ]
    console().print(facts(pairs))
    if votes:
        rows = [[words(vote.by), words(vote.decision), words(vote.door), words(stamp(vote.at))] for vote in votes]
        console().print(heading("\nVotes"))
        console().print(indented(table(["WHO", "VOTE", "WHERE", "WHEN"], rows)))
    if told:
        rows = [[words(one.to), words(one.channel), _delivery_result(one)] for one in told]
        console().print(heading("\nNotifications"))
        console().print(indented(table(["WHO", "CHANNEL", "SENT"], rows)))


def _delivery_result(one: NotificationView) -> Text:
    if one.error is not None:
        return words(f"not yet: {one.error}", "red")
    return words(stamp(one.sent_at) if one.sent_at else "")


# -- approvals ---------------------------------------------------------------------------------
# `cortex approvals`: list, show and decide approval requests.


DOOR = "cli"

ApprovalIds = Annotated[str, Parameter(name="ID", help="Ids of approvals, or unique prefixes of them.")]
ApprovalIdOrPrefix = Annotated[str, Parameter(name="ID", help="The id of the approval, or a unique prefix of it.")]
As = Annotated[
    str | None,
    Parameter(name="--as", metavar="NAME", help="The user who decides (default: the user named like your login)."),
]
ReasonForAgent = Annotated[str | None, Parameter(metavar="TEXT", help="The reason; the agent can read it.")]


@watchable
async def list_approvals(
    *,
    mine: Annotated[bool, Parameter(help="Only requests that you, or the user of --as, may decide.")] = False,
    as_user: As = None,
    tenant: Annotated[str | None, Parameter(metavar="NAME", help="Only requests of this tenant.")] = None,
    job: Annotated[str | None, Parameter(metavar="ID", help="Only requests of this job.")] = None,
    closed: Annotated[bool, Parameter(name="--all", help="Include closed requests.")] = False,
    limit: Annotated[int, Parameter(metavar="N", help="Number of requests, up to 1000 (default: 20).")] = 20,
    before: Annotated[str | None, Parameter(metavar="ID", help="Only requests older than this one: the next page.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List open approval requests, newest first.

    Try:
        cortex approvals list
        cortex approvals list --mine
        cortex approvals list --as ada --json
    """
    from cortex_plane.approvals.views import approval_view
    from cortex_plane.cli.output import console, print_json

    async with existing_plane(plane_url) as plane:
        found = await plane.approvals.list(
            waiting_for=await _person(plane, as_user) if mine or as_user else None,
            tenant=tenant,
            job=job,
            open_only=not closed,
            before=None if before is None else (await plane.approvals.get(before)).id,
            limit=limit,
        )
    if as_json:
        print_json({"approvals": [approval_view(one) for one in found]})
    elif found:
        console().print(approval_table(found))
        next_step("\nTo show one", "cortex approvals show ID", plane_url)
    else:
        print("No approval is open.")
    return 0


async def show(approval_id: ApprovalIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show a request: its details, approvers, votes, notifications and outcome.

    Try:
        cortex approvals show 0199a8c2
    """
    from cortex_plane.approvals.views import approval_view
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        found = await plane.approvals.get(approval_id)
        votes = await plane.approvals.votes(found.id)
        people = await plane.approvals.asked(found)
        told = await plane.approvals.notifications(found)
    if as_json:
        print_json({"approval": approval_view(found), "votes": votes, "notifications": told})
        return 0
    print_approval(found, votes, people, told)
    if found.is_open:
        next_step("\nTo approve it", f"cortex approvals approve {found.id}", plane_url)
    return 0


async def approve(
    *approval_ids: ApprovalIds,
    as_user: As = None,
    reason: ReasonForAgent = None,
    details: Annotated[str | None, Parameter(metavar="JSON", help="The edited details, if the request is editable.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Approve requests. Their jobs resume.

    With several ids, each request is decided separately: if one cannot be approved, the others are.

    Try:
        cortex approvals approve 0199a8c2 --as ada
        cortex approvals approve 0199a8c2 0199a8d7 --reason "looks good"
    """
    edits = _document(details)
    async with existing_plane(plane_url) as plane:
        person = await _person(plane, as_user)
        if edits is not None:
            answers = {one: await _approve(plane, one, person, reason, edits) for one in _only_one(approval_ids)}
        else:
            answers = await _decide(plane, approval_ids, "approved", person, reason)
    return _say(answers, as_json)


async def deny(
    *approval_ids: ApprovalIds,
    as_user: As = None,
    reason: ReasonForAgent = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Deny requests. Their jobs fail, or resume with the denial if the agent uses on_denial="raise".

    With several ids, each request is decided separately: if one cannot be denied, the others are.

    Try:
        cortex approvals deny 0199a8c2 --as ada --reason "not on a Friday"
    """
    async with existing_plane(plane_url) as plane:
        person = await _person(plane, as_user)
        answers = await _decide(plane, approval_ids, "denied", person, reason)
    return _say(answers, as_json)


async def remind(approval_id: ApprovalIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Notify all approvers who have not voted yet again.

    Try:
        cortex approvals remind 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        found = await plane.approvals.get(approval_id)
        await plane.approvals.remind(found.id, actor=me(), door=DOOR)
    if as_json:
        print_json({"id": found.id, "reminded": True})
    else:
        print(f"Reminded the approvers of {found.id}")
    return 0


# -- user, decision, result ----------------------------------------------------------------------
async def _person(plane: Plane | Client, named: str | None) -> str:
    """Returns the name of the user who decides. Anyone with database access may name any user."""
    from cortex_plane.errors import InvalidInput
    from cortex_plane.people.model import UserNotFound

    if (myself := await plane.people.myself()) is not None:
        if named not in (None, myself):
            raise InvalidInput(
                f'Your API key belongs to "{myself}". Through a server, --as cannot name another user.', field="as"
            )
        return myself
    login = me().partition(":")[2]
    try:
        return (await plane.people.get(named or login)).name
    except UserNotFound:
        if named is not None:
            raise
        raise InvalidInput(
            f'There is no user "{login}". Pass --as NAME, or add yourself: cortex users add {login} --role approver',
            field="as",
        ) from None


async def _decide(
    plane: Plane | Client, ids: tuple[str, ...], decision: Verdict, person: str, reason: str | None
) -> dict[str, Answer]:
    from cortex_plane.errors import InvalidInput

    if not ids:
        raise InvalidInput("Give one or more ids of approvals. To list them: cortex approvals list", field="ID")
    decided = await plane.approvals.decide_many(ids, decision, by=person, reason=reason, door=DOOR)
    return {str(approval_id): answer for approval_id, answer in decided.items()}


async def _approve(plane: Plane | Client, approval_id: str, person: str, reason: str | None, edits: Any) -> Answer:
    return await plane.approvals.approve(approval_id, by=person, reason=reason, details=edits, door=DOOR)


def _only_one(ids: tuple[str, ...]) -> tuple[str]:
    from cortex_plane.errors import InvalidInput

    if len(ids) != 1:
        raise InvalidInput("--details applies to one approval: give exactly one id.", field="details")
    return (ids[0],)


def _document(details: str | None) -> Any:
    import json

    from cortex_plane.errors import InvalidInput

    try:
        return None if details is None else json.loads(details)
    except ValueError as error:
        raise InvalidInput(f"--details is not JSON: {error}.", field="details") from None


def _say(answers: dict[str, Answer], as_json: bool) -> int:
    from cortex_plane.cli.output import print_json

    codes = {approval_id: _exit_code(answer) for approval_id, answer in answers.items()}
    if as_json:
        print_json(
            {
                "decisions": [
                    {"id": approval_id, "done": codes[approval_id] == 0, "message": _said(answer), "answer": answer}
                    for approval_id, answer in answers.items()
                ]
            }
        )
    else:
        for approval_id, answer in answers.items():
            print(f"{approval_id}  {_said(answer)}", file=sys.stderr if codes[approval_id] else sys.stdout)
    return max(codes.values(), default=0)


def _said(answer: Answer) -> str:
    from cortex_plane.approvals.decisions import Unknown, told

    return (
        "There is no such approval. To list open approvals: cortex approvals list"
        if isinstance(answer, Unknown)
        else told(answer)
    )


def _exit_code(answer: Answer) -> int:
    """The exit code that other commands use for the same refusal."""
    from cortex_plane.approvals.decisions import Decided, NotAllowed, Recorded, Unknown
    from cortex_plane.cli.errors import EXIT_CODES
    from cortex_plane.errors import Conflict, Denied, NotFound

    match answer:
        case Decided() | Recorded():
            return 0
        case NotAllowed():
            return EXIT_CODES[Denied]
        case Unknown():
            return EXIT_CODES[NotFound]
        case _:
            return EXIT_CODES[Conflict]
