"""What whoever approved or denied is told, on every door in the same words."""

from __future__ import annotations

from typing import assert_never

from cortex_plane.core.approval_messages import ClosedMessage
from cortex_plane.core.approval_texts import one_line, when
from cortex_plane.core.decisions import AlreadyDecided, Answer, Decided, Expired, NotAllowed, Recorded, Unknown, Withdrawn

UNKNOWN = "This link or button does not work, or not any more. If there is a newer message about the same request, use that one."
"""The same for what never was a token, for what nobody was ever sent, and for what a newer message has replaced."""


def told(answer: Answer) -> str:
    """One sentence or two; names of people are in it, and nothing that is secret."""
    match answer:
        case Decided(decision=decision):
            return f"You have {decision} it."
        case Recorded(votes, quorum):
            return f"Your approval counts: {votes} of {quorum} so far."
        case AlreadyDecided(decision, by, at):
            return f"It was already {decision}{_by(by)}{f', on {when(at)}' if at else ''}."
        case Expired(at):
            return f"It is too late: nobody decided until {when(at)}."
        case Withdrawn():
            return "The job was cancelled, so there is nothing to decide any more."
        case NotAllowed(why):
            return why
        case Unknown():
            return UNKNOWN
        case _:
            assert_never(answer)


def closing(answer: Decided) -> ClosedMessage:
    """What the message that asked says from now on."""
    return ClosedMessage(answer.decision, answer.by, None, answer.at)


def _by(name: str | None) -> str:
    return f" by {one_line(name)}" if name else ""
