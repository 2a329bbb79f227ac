"""Messages to approvers: the request, and how it ended. Shared by all channels."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from unicodedata import category
from urllib.parse import urlsplit

from cortex_plane.errors import InvalidInput
from cortex_plane.ids import derived_id
from cortex_plane.json import Json

if TYPE_CHECKING:
    from cortex_plane.approvals.decisions import ApprovalToken
    from cortex_plane.approvals.model import ApprovalRequest, Notification, Purpose

TITLE_LIMIT = 150
SUMMARY_LIMIT = 1_000
AGENT_LIMIT = 100
ID_LIMIT = 64
NOTE_LIMIT = 120

# Invisible characters that can break lines, reorder text, or hide text from readers.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # Some scripts and many emoji need these.
_REPLACEMENT = "\ufffd"

Size = Callable[[str], int]
"""How a service counts characters. Never less than `len`, and monotonic."""

Mark = Callable[[str, str], str]
"""Escapes a text and wraps it in a tag: `mark("b", "a < b")`. The tag "" only escapes."""


# -- invisible text ------------------------------------------------------------------------------
def lines(text: str) -> str:
    """Keeps line breaks and replaces invisible characters."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    return "".join(_REPLACEMENT if _is_hidden(char) and char not in _JOINERS else char for char in unified).strip()


def one_line(text: str) -> str:
    return " ".join(lines(text).split())


def _is_hidden(char: str) -> bool:
    return char != "\n" and category(char) in _HIDDEN


# -- cutting -------------------------------------------------------------------------------------
def utf16_size(text: str) -> int:
    """Telegram counts UTF-16 units. Other services do not document how they count; none can count more."""
    return len(text) + sum(char > "\uffff" for char in text)


def cut(text: str, limit: int, size: Size = utf16_size) -> str:
    """The longest prefix within the limit."""
    ends = range(min(len(text), max(limit, 0)) + 1)
    return text[: bisect_right(ends, limit, key=lambda end: size(text[:end])) - 1] if limit > 0 else ""


def shortened(text: str, limit: int, size: Size = utf16_size) -> str:
    """The text, or a prefix with an ellipsis."""
    if len(text) <= limit and size(text) <= limit:
        return text
    return cut(text, limit - size("…"), size) + "…"


# -- details -------------------------------------------------------------------------------------
class Details(NamedTuple):
    """Indented JSON. `note` says how much was cut, and is empty if nothing was."""

    text: str
    note: str = ""


NO_DETAILS = Details("")


def details_of(details: Json, limit: int, size: Size = utf16_size) -> Details:
    """Invisible characters are written as JSON escapes, so that the text is exact."""
    if details is None or details in ({}, []):
        return NO_DETAILS
    whole = json.dumps(details, ensure_ascii=False, indent=2, sort_keys=True)
    beginning = "".join(_escaped(char) if _is_hidden(char) else char for char in whole[: max(limit, 0) + 1])
    if len(whole) <= limit and size(beginning) <= limit:
        return Details(beginning)
    note = f"… The details have {len(whole):,} characters and are cut here; the page shows them all."
    return Details(cut(beginning, limit, size), note)


def without_fences(text: str) -> str:
    """Escapes backquotes, so that the JSON cannot end a Markdown code block."""
    return text.replace("```", "\\u0060\\u0060\\u0060")


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


# -- the message as text -------------------------------------------------------------------------
def plain(tag: str, text: str) -> str:
    return text


def title_of(message: ApprovalMessage, limit: int = TITLE_LIMIT) -> str:
    return shortened(one_line(message.title), limit) or "(without a title)"


def summary_of(message: ApprovalMessage, limit: int = SUMMARY_LIMIT) -> str:
    return shortened(lines(message.summary), limit)


def origin(agent: str, job_id: str, mark: Mark = plain) -> str:
    named, numbered = shortened(one_line(agent), AGENT_LIMIT), shortened(one_line(job_id), ID_LIMIT)
    return f"Agent {mark('b', named)}, job {mark('code', numbered)}"


def when(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def request_text(message: ApprovalMessage, details: Details, mark: Mark = plain, *, page: bool) -> str:
    """The whole request. `page` adds the address of the page, for messages without a link button."""
    paragraphs = [
        f"🔒 Approval needed: {mark('b', title_of(message))}",
        mark("", summary_of(message)),
        f"{origin(message.agent, message.job_id, mark)}\nExpires {when(message.expires_at)}",
        mark("pre", details.text) if details.text else "",
        mark("", details.note),
        f"To view and decide: {mark('code', message.page_url)}" if page else "",
    ]
    return "\n\n".join(filter(None, paragraphs))


def closed_text(closed: ClosedMessage, shown: dict[str, str], mark: Mark = plain) -> str:
    title, summary = shortened(one_line(shown.get("title", "")), TITLE_LIMIT), lines(shown.get("summary", ""))
    paragraphs = [
        f"{mark('', closed.headline)}: {mark('b', title)}" if title else mark("", closed.headline),
        mark("", shortened(summary, SUMMARY_LIMIT)),
        mark("", closed.remark),
        f"{origin(shown.get('agent', '?'), shown.get('job_id', '?'), mark)}\n{closed.time}",
    ]
    return "\n\n".join(filter(None, paragraphs))


# -- approval messages -------------------------------------------------------------------------
# The content of messages: the request, the data of its buttons, and how it ended.


Decision: TypeAlias = Literal["approved", "denied"]
Closing: TypeAlias = Literal["approved", "denied", "expired", "cancelled", "superseded"]

TOKEN = re.compile(r"cortex_apr_1_[A-Za-z0-9_-]{43}")
URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
URL_LIMIT = 512  # The limit of a Discord button; all others allow more.
NAME_LIMIT = 100
REASON_LIMIT = 500
SHOWN_SUMMARY_LIMIT = 300


@dataclass(frozen=True, slots=True)
class ApprovalMessage:
    """A request to one addressee, with their own token.

    `page_url` opens the page with the two buttons. `approve_url` and `deny_url` take a POST; no message links to them.
    """

    title: str
    summary: str
    details: Json = field(repr=False)
    agent: str
    job_id: str
    request_id: str
    expires_at: datetime
    approve_url: str = field(repr=False)
    deny_url: str = field(repr=False)
    page_url: str = field(repr=False)
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.token, str) or not TOKEN.fullmatch(self.token):
            raise InvalidInput("token is not an approval token: cortex_apr_1_ and 43 characters of base64url.", field="token")
        for name in ("approve_url", "deny_url", "page_url"):
            _check_url(getattr(self, name), name)

    @property
    def key(self) -> str:
        """Identifies this message. A message that is sent again has another token, and so another key."""
        return f"apr-{sha256(f'message {self.request_id} {self.token}'.encode()).hexdigest()[:32]}"

    @property
    def link(self) -> str | None:
        """The page, if chat services accept its address: they reject buttons that lead to `http://localhost`."""
        return self.page_url if "." in _host(self.page_url) else None


@dataclass(frozen=True, slots=True)
class ClosedMessage:
    """How a request ended. `by` is the name of the user who decided, if any."""

    outcome: Closing
    by: str | None
    reason: str | None
    at: datetime

    @property
    def headline(self) -> str:
        by = f" by {shortened(one_line(self.by), NAME_LIMIT)}" if self.by else ""
        return _HEADLINES[self.outcome] + by

    @property
    def remark(self) -> str:
        """The reason on one line; empty if none was given."""
        return f"Reason: {shortened(one_line(self.reason), REASON_LIMIT)}" if self.reason else ""

    @property
    def time(self) -> str:
        return when(self.at)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an approver on one channel. Hidden from logs: it is personal, and may work as a credential."""

    id: str = field(repr=False)
    kind: Literal["user", "channel"] = "user"


@dataclass(frozen=True, slots=True)
class Sent:
    """A sent message as stored: enough to edit it, and no secret."""

    message_id: str
    where: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Click:
    """A pressed button. `answer_to` is where the service expects a separate reply, if it does."""

    token: str = field(repr=False)
    decision: Decision
    channel_user_id: str
    message: Sent | None
    answer_to: str = field(default="", repr=False)


_HEADLINES: dict[Closing, str] = {
    "approved": "✅ Approved",
    "denied": "❌ Denied",
    "expired": "⏰ Expired without a decision",
    "cancelled": "🚫 Cancelled",
    "superseded": "🔁 Replaced by a newer request",
}


# -- buttons -------------------------------------------------------------------------------------
_LETTERS: dict[Decision, str] = {"approved": "a", "denied": "d"}
_DECISIONS = {letter: decision for decision, letter in _LETTERS.items()}


def button_data(decision: Decision, token: str) -> str:
    """58 bytes. Limits: Telegram 64, Discord 100, Slack 2,000."""
    return f"{_LETTERS[decision]}:{token}"


def button_meaning(data: object) -> tuple[Decision, str] | None:
    """Returns the decision and the token, or None if the data is not of our buttons."""
    letter, _, token = data.partition(":") if isinstance(data, str) else ("", "", "")
    return (_DECISIONS[letter], token) if letter in _DECISIONS and TOKEN.fullmatch(token) else None


# -- stored messages -----------------------------------------------------------------------------
def message_view(message: ApprovalMessage) -> dict[str, str]:
    """The text that a closed message keeps. It is stored, so it contains neither token nor links."""
    return {
        "title": title_of(message),
        "summary": summary_of(message, SHOWN_SUMMARY_LIMIT),
        "agent": shortened(one_line(message.agent), NAME_LIMIT),
        "job_id": message.job_id,
    }


def _check_url(url: object, name: str) -> None:
    """The error does not repeat the URL, which contains the token."""
    if not isinstance(url, str) or len(url) > URL_LIMIT or not URL.fullmatch(url) or not _host(url):
        raise InvalidInput(
            f"{name} must be an address of at most {URL_LIMIT} ASCII characters, with https:// or http://.", field=name
        )


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


# -- approval notices --------------------------------------------------------------------------
# Converts requests to messages.


_LEADS: dict[Purpose, str] = {"remind": "Reminder: ", "escalate": "Escalated to you: "}


def message_of(request: ApprovalRequest, purpose: Purpose, token: ApprovalToken, public_url: str) -> ApprovalMessage:
    """`public_url` is the address of the server for approvers."""
    base, secret = public_url.rstrip("/"), token.plaintext
    return ApprovalMessage(
        title=_title(request, purpose),
        summary=_summary(request),
        details=request.action_details,
        agent=request.agent,
        job_id=request.job_id,
        request_id=request.id,
        expires_at=request.expires_at,
        approve_url=f"{base}/api/approvals/{secret}/approve",
        deny_url=f"{base}/api/approvals/{secret}/deny",
        page_url=f"{base}/approvals/{secret}",
        token=secret,
    )


def closed_of(request: ApprovalRequest) -> ClosedMessage:
    """The closing message of a closed request."""
    assert request.closed_at is not None
    return ClosedMessage(_closing(request), request.decided_by_name, request.reason, request.closed_at)


def sent_of(notification: Notification) -> Sent:
    where = notification.where if isinstance(notification.where, dict) else {}
    return Sent(notification.message_id or "", where)


def key_of(request: ApprovalRequest, notification: Notification) -> str:
    """Identifies one message of a request by an opaque key."""
    parts = (notification.user_account_id, notification.channel_type, notification.channel_user_id, notification.message_id)
    return derived_id(request.id, "\n".join(map(str, parts)))


def _closing(request: ApprovalRequest) -> Closing:
    if request.decision is None:
        return "superseded" if request.outcome == "superseded" else "cancelled"
    return request.decision


def _title(request: ApprovalRequest, purpose: Purpose) -> str:
    first = request.action_summary.strip().splitlines()[0]
    return _LEADS.get(purpose, "") + one_line(first)


def _summary(request: ApprovalRequest) -> str:
    """The text that is not in the title already."""
    text = request.action_summary.strip()
    said = len(text) <= TITLE_LIMIT and len(text.splitlines()) == 1
    missing = f"{request.quorum} approvals are needed; {request.votes} so far." if request.quorum > 1 else ""
    return "\n\n".join(filter(None, ["" if said else text, request.why_again, missing]))
