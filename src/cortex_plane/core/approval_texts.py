"""Text by strangers, made fit to be shown: nothing hidden in it, cut to length, and marked up only by ourselves."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import category

from cortex_plane.core.normal_json import Json

if TYPE_CHECKING:
    from cortex_plane.core.approval_messages import ApprovalMessage, ClosedMessage

TITLE_LIMIT = 150
SUMMARY_LIMIT = 1_000
AGENT_LIMIT = 100
ID_LIMIT = 64
NOTE_LIMIT = 120

# Not seen, but able to end lines, to reorder what stands beside them, or to say something to machines only.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # Some scripts, and many emoji, are not themselves without these.
_REPLACEMENT = "\ufffd"

Size = Callable[[str], int]
"""How a service counts. It is never less than the number of characters, and grows with the text."""

Mark = Callable[[str, str], str]
"""Escapes a text and puts it in a tag: `mark("b", "a < b")`. The tag "" only escapes."""


# -- making visible ------------------------------------------------------------------------------


def lines(text: str) -> str:
    """The text with its lines, and a sign in place of everything that cannot be seen."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    return "".join(_REPLACEMENT if _is_hidden(char) and char not in _JOINERS else char for char in unified).strip()


def one_line(text: str) -> str:
    return " ".join(lines(text).split())


def _is_hidden(char: str) -> bool:
    return char != "\n" and category(char) in _HIDDEN


# -- cutting -------------------------------------------------------------------------------------


def utf16_size(text: str) -> int:
    """As Telegram counts. Others do not say how they do, and none would count more."""
    return len(text) + sum(char > "\uffff" for char in text)


def cut(text: str, limit: int, size: Size = utf16_size) -> str:
    """The longest beginning that is within the limit."""
    ends = range(min(len(text), max(limit, 0)) + 1)
    return text[: bisect_right(ends, limit, key=lambda end: size(text[:end])) - 1] if limit > 0 else ""


def shortened(text: str, limit: int, size: Size = utf16_size) -> str:
    """The text, or its beginning and an ellipsis."""
    if len(text) <= limit and size(text) <= limit:
        return text
    return cut(text, limit - size("…"), size) + "…"


# -- details -------------------------------------------------------------------------------------


class Details(NamedTuple):
    """JSON for people. `note` says how much was left out, and is empty if nothing was."""

    text: str
    note: str = ""


NO_DETAILS = Details("")


def details_of(details: Json, limit: int, size: Size = utf16_size) -> Details:
    """What cannot be seen is written as JSON escapes it, so that the text still says exactly what the details are."""
    if details is None or details in ({}, []):
        return NO_DETAILS
    whole = json.dumps(details, ensure_ascii=False, indent=2, sort_keys=True)
    beginning = "".join(_escaped(char) if _is_hidden(char) else char for char in whole[: max(limit, 0) + 1])
    if len(whole) <= limit and size(beginning) <= limit:
        return Details(beginning)
    note = f"… The details have {len(whole):,} characters and are cut here; the page shows them all."
    return Details(cut(beginning, limit, size), note)


def without_fences(text: str) -> str:
    """The same JSON, in which nothing ends a block of code in Markdown."""
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
    """The whole request. `page` writes the page's address out, where no button leads to it."""
    paragraphs = [
        f"🔒 Approval needed: {mark('b', title_of(message))}",
        mark("", summary_of(message)),
        f"{origin(message.agent, message.job_id, mark)}\nExpires {when(message.expires_at)}",
        mark("pre", details.text) if details.text else "",
        mark("", details.note),
        f"To look at it and decide: {mark('code', message.page_url)}" if page else "",
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
