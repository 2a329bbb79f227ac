"""Decisions: their results and wording, tokens, and the check of edits."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, assert_never, cast

from cortex_plane.approvals.messages import ClosedMessage, one_line, when
from cortex_plane.approvals.model import ApprovalId, ApprovalOutcome, Verdict
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import JobId
from cortex_plane.json import Json, normal


@dataclass(frozen=True, slots=True)
class Decided:
    """This decision closed the request, and its job has moved."""

    request_id: ApprovalId
    job_id: JobId
    decision: Verdict
    outcome: ApprovalOutcome
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Recorded:
    """The vote counts; more are needed."""

    votes: int
    quorum: int


@dataclass(frozen=True, slots=True)
class AlreadyDecided:
    decision: Verdict
    by: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Expired:
    """The request expired without a decision."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The job was cancelled, or a newer request with another wording replaced this one (`superseded`)."""

    at: datetime | None
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """`why` is shown to the user who tried."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No such request or token. The caller cannot tell which."""


Answer = Decided | Recorded | AlreadyDecided | Expired | Withdrawn | NotAllowed | Unknown


# -- decision texts ----------------------------------------------------------------------------
# The text of each result, the same on every interface.


UNKNOWN = "This link or button is invalid or has been replaced. If you have a newer message about the same request, use that one."
"""One text for malformed, unknown and replaced tokens."""


def told(answer: Answer) -> str:
    """Describes the result in one or two sentences. Contains names of users and no secret."""
    match answer:
        case Decided(decision=decision):
            return f"You {decision} it."
        case Recorded(votes, quorum):
            return f"Your approval counts: {votes} of {quorum} so far."
        case AlreadyDecided(decision, by, at):
            return f"It was already {decision}{_by(by)}{f', on {when(at)}' if at else ''}."
        case Expired(at):
            return f"It expired on {when(at)} without a decision."
        case Withdrawn(superseded=True):
            return "A newer request with another wording has replaced this one. Decide the newer request."
        case Withdrawn():
            return "The job was cancelled, so the request is closed."
        case NotAllowed(why):
            return why
        case Unknown():
            return UNKNOWN
        case _:
            assert_never(answer)


def closing(answer: Decided) -> ClosedMessage:
    """The closing edit of the message that asked."""
    return ClosedMessage(answer.decision, answer.by, None, answer.at)


def _by(name: str | None) -> str:
    return f" by {one_line(name)}" if name else ""


# -- approval tokens ---------------------------------------------------------------------------
# Approval tokens: `cortex_apr_1_` and 256 bits in base64url. Only their hashes are stored.
#
# The payload may contain underscores, so a token is parsed by prefix and length, never by splitting.


TOKEN_BYTES = 32
PREFIX = "cortex_apr_1_"
# 32 bytes fill 42 characters and four bits: the last two bits of the 43rd are zero.
TOKEN = re.compile(r"cortex_apr_1_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")


@dataclass(frozen=True, slots=True)
class ApprovalToken:
    """`plaintext` goes only into the message to its addressee; `hash` is stored."""

    plaintext: str = field(repr=False)
    hash: str = field(repr=False)

    def __str__(self) -> str:
        return f"{PREFIX}…"


def mint(random_bytes: bytes) -> ApprovalToken:
    """Creates a token from 32 random bytes."""
    if len(random_bytes) != TOKEN_BYTES:
        raise InvalidInput(f"A token needs {TOKEN_BYTES} random bytes, not {len(random_bytes)}.", field="random_bytes")
    plaintext = PREFIX + urlsafe_b64encode(random_bytes).rstrip(b"=").decode()
    return ApprovalToken(plaintext, hash_of(plaintext))


def parse(token: object) -> ApprovalToken | None:
    """Returns None for malformed tokens. They get the same answer as unknown ones."""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        return None
    return ApprovalToken(token, hash_of(token))


def hash_of(plaintext: str) -> str:
    return sha256(plaintext.encode()).hexdigest()


# -- approval edits ----------------------------------------------------------------------------
# Which details an approver may change before approving, and the check of the changes.
#
# False               nothing
# True                everything; an object must stay an object, and a list a list
# ["image", "tag"]    these keys of an object
# {"type": …}         the details must match this JSON Schema, such as that of a pydantic model


CheckSchema = Callable[[dict[str, Any]], None]
"""Raises InvalidInput for an invalid or unsupported JSON Schema."""
CheckDocument = Callable[[dict[str, Any], Any, str], None]
"""Raises InvalidInput with the path of the first value that does not match the schema. The path begins with the name."""


def checked_editable(editable: Any, details: Json, quorum: int, check_schema: CheckSchema) -> Json:
    """Returns the rule as canonical JSON. Raises InvalidInput if it is not valid for this request."""
    if editable is False or editable is None:
        return False
    if quorum != 1:
        raise InvalidInput(
            "editable requires quorum=1, because other approvers would not see the changed details.", field="editable"
        )
    if editable is True:
        return True
    if isinstance(editable, list | tuple) and editable and all(isinstance(key, str) for key in editable):
        if not isinstance(details, dict):
            raise InvalidInput("editable names keys, so details must be an object.", field="editable")
        return [str(key) for key in editable]
    if isinstance(editable, Mapping):
        rule = cast(dict[str, Any], normal(editable, "editable"))
        check_schema(rule)
        return rule
    raise InvalidInput("editable must be True, False, a list of keys, or a JSON Schema.", field="editable")


def edited(details: Json, edits: Any, editable: Json, check_document: CheckDocument) -> Json:
    """Returns the new details as canonical JSON, or None if nothing was changed. Raises InvalidInput naming the field."""
    if edits is None:
        return None
    changed = normal(edits, "details")
    if changed == details and changed is not None:
        return None
    if editable is False:
        raise InvalidInput("The details of this request cannot be changed: approve them as shown, or deny.", field="details")
    if editable is True:
        _check_kind(details, changed)
    elif isinstance(editable, list):
        _check_keys(details, changed, [str(key) for key in editable])
    else:
        check_document(cast(dict[str, Any], editable), changed, "details")
    return changed


def _check_kind(details: Json, changed: Json) -> None:
    for kind, name in ((dict, "an object"), (list, "a list")):
        if isinstance(details, kind) and not isinstance(changed, kind):
            raise InvalidInput(f"details must stay {name}.", field="details")


def _check_keys(details: Json, changed: Json, keys: list[str]) -> None:
    if not isinstance(changed, dict) or not isinstance(details, dict):
        raise InvalidInput("details must stay an object.", field="details")
    for key in details.keys() | changed.keys():
        same = key in details and key in changed and details[key] == changed[key]
        if not same and key not in keys:
            raise InvalidInput(f"details.{key} cannot be changed; only {', '.join(keys)} can.", field=f"details.{key}")
