"""What an approver gets to see, on every channel alike: the request, what a click on it means, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from cortex_plane.core.approval_texts import one_line, shortened, summary_of, title_of, when
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.normal_json import Json

Decision: TypeAlias = Literal["approved", "denied"]
Closing: TypeAlias = Literal["approved", "denied", "expired", "cancelled"]

TOKEN = re.compile(r"cortex_apr_1_[A-Za-z0-9_-]{43}")
URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
URL_LIMIT = 512  # What a button of Discord takes; all others take more.
NAME_LIMIT = 100
REASON_LIMIT = 500
SHOWN_SUMMARY_LIMIT = 300


@dataclass(frozen=True, slots=True)
class ApprovalMessage:
    """A request as one addressee gets it: `token` is theirs alone.

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
        """Names this message, not the request: one that is sent anew has another token, and must not pass for the old one."""
        return f"apr-{sha256(f'message {self.request_id} {self.token}'.encode()).hexdigest()[:32]}"

    @property
    def link(self) -> str | None:
        """The page, if its address looks like one that chat services take: they refuse buttons to `http://localhost`."""
        return self.page_url if "." in _host(self.page_url) else None


@dataclass(frozen=True, slots=True)
class ClosedMessage:
    """How a request ended. `by` is the name of whoever decided, if somebody did."""

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
        """The reason, in one line; empty if none was given."""
        return f"Reason: {shortened(one_line(self.reason), REASON_LIMIT)}" if self.reason else ""

    @property
    def time(self) -> str:
        return when(self.at)


@dataclass(frozen=True, slots=True)
class Address:
    """Where one channel reaches one approver. Not shown: it is personal, and may open a door by itself."""

    id: str = field(repr=False)
    kind: Literal["user", "channel"] = "user"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent, as it is stored: enough to edit it, and no secret."""

    message_id: str
    where: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Click:
    """Somebody pressed a button. `answer_to` is where the service waits for an answer, if it wants one of its own."""

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
}


# -- buttons -------------------------------------------------------------------------------------

_LETTERS: dict[Decision, str] = {"approved": "a", "denied": "d"}
_DECISIONS = {letter: decision for decision, letter in _LETTERS.items()}


def button_data(decision: Decision, token: str) -> str:
    """58 bytes. Telegram takes 64, Discord 100, Slack 2,000."""
    return f"{_LETTERS[decision]}:{token}"


def button_meaning(data: object) -> tuple[Decision, str] | None:
    """The decision and the token; None for whatever is not one of our buttons."""
    letter, _, token = data.partition(":") if isinstance(data, str) else ("", "", "")
    return (_DECISIONS[letter], token) if letter in _DECISIONS and TOKEN.fullmatch(token) else None


# -- what is kept of a message -------------------------------------------------------------------


def shown_of(message: ApprovalMessage) -> dict[str, str]:
    """What a closed message still says. Stored with the message, so nothing of its token or links is in here."""
    return {
        "title": title_of(message),
        "summary": summary_of(message, SHOWN_SUMMARY_LIMIT),
        "agent": shortened(one_line(message.agent), NAME_LIMIT),
        "job_id": message.job_id,
    }


def _check_url(url: object, name: str) -> None:
    """Without repeating it: it holds the token."""
    if not isinstance(url, str) or len(url) > URL_LIMIT or not URL.fullmatch(url) or not _host(url):
        raise InvalidInput(
            f"{name} must be an address of at most {URL_LIMIT} ASCII characters, with https:// or http://.", field=name
        )


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
