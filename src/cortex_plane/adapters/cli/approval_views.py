"""How approvals are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.cli.output import console, document, facts, heading, indented, one_line, one_line_each, table, words
from cortex_plane.adapters.cli.times import ago, stamp
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.shown_approvals import state_of

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.core.approvals import ApprovalRequest, Vote
    from cortex_plane.core.shown_approvals import ShownNotification

STYLES = {"open": "magenta", "approved": "green", "denied": "red", "expired": "yellow", "cancelled": "bright_black"}


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
    request: ApprovalRequest, votes: Sequence[Vote], people: Sequence[str], told: Sequence[ShownNotification]
) -> None:
    state = state_of(request)
    asked = ", ".join(people) if people else "a group" if request.approvers.groups else "every approver of the tenant"
    pairs = [
        ("Approval", words(request.id)),
        ("State", words(state, STYLES[state])),
        ("What", words(request.action_summary.strip())),
        ("Details", None if request.action_details is None else document(request.action_details)),
        ("Changed to", None if request.edited_details is None else document(request.edited_details)),
        ("Asked by", words(f"{request.agent}, job {request.job_id}")),
        ("Asked", words(stamp(request.created_at))),
        ("Until", words(stamp(request.expires_at))),
        ("Of", words(asked)),
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
        rows = [[words(one.to), words(one.channel), _came_of(one)] for one in told]
        console().print(heading("\nTold"))
        console().print(indented(table(["WHO", "BY", "WHEN"], rows)))


def _came_of(one: ShownNotification) -> Text:
    if one.error is not None:
        return words(f"not yet: {one.error}", "red")
    return words(stamp(one.sent_at) if one.sent_at else "")
