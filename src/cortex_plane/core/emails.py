"""An e-mail to be sent: who gets it, what it says, and what is refused before anybody is asked to send it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from cortex_plane.core.errors import InvalidInput, did_you_mean

RECIPIENT_LIMIT = 100
SUBJECT_LIMIT = 900
FIELDS = ("to", "cc", "bcc", "subject", "text", "html", "reply_to", "from")

NAMED = re.compile(r'"?(?P<name>[^"<>]*?)"?\s*<(?P<address>[^<>]*)>')
ADDRESS = re.compile(r'[^\s@<>()\[\]\\,;:"]{1,64}@(?!-)[^\s@<>()\[\]\\,;:".]+(\.[^\s@<>()\[\]\\,;:".]+)*')
ADDRESS_LIMIT = 254


class Mailbox(NamedTuple):
    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Email:
    """`id` is the job's: the same at every attempt, so that a service that knows it sends once."""

    id: str
    at: datetime
    sender: Mailbox | None
    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...]
    bcc: tuple[Mailbox, ...]
    subject: str
    text: str | None
    html: str | None
    reply_to: tuple[Mailbox, ...]

    @property
    def recipients(self) -> tuple[Mailbox, ...]:
        return (*self.to, *self.cc, *self.bcc)


@dataclass(frozen=True, slots=True)
class SentEmail:
    """`refused` are those of several recipients to whom it was not sent, with the reason."""

    message_id: str
    refused: Mapping[str, str]


def email_of(job_id: str, at: datetime, fields: Mapping[str, Any]) -> Email:
    """What a job asks for, checked; raises InvalidInput naming the field."""
    for name in fields:
        if name not in FIELDS:
            raise InvalidInput(
                f'An e-mail has no field "{name}".{did_you_mean(name, FIELDS)} It has: {", ".join(FIELDS)}.', field=name
            )
    email = Email(
        id=job_id,
        at=at,
        sender=_sender(fields.get("from")),
        to=_mailboxes(fields.get("to"), "to"),
        cc=_mailboxes(fields.get("cc"), "cc"),
        bcc=_mailboxes(fields.get("bcc"), "bcc"),
        subject=_subject(fields.get("subject")),
        text=_content(fields.get("text"), "text"),
        html=_content(fields.get("html"), "html"),
        reply_to=_mailboxes(fields.get("reply_to"), "reply_to"),
    )
    _check_whole(email)
    return email


def mailbox(value: Any, field: str) -> Mailbox:
    """`ada@example.com` or `Ada <ada@example.com>`."""
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidInput(f"{field} must be an address in one line of text, not {value!r:.60}.", field=field)
    named = NAMED.fullmatch(value.strip())
    address, name = (named["address"], named["name"]) if named else (value.strip(), "")
    if not ADDRESS.fullmatch(address) or len(address) > ADDRESS_LIMIT:
        raise InvalidInput(
            f'{field} is {value!r:.80}, which is not an e-mail address. Write ada@example.com or "Ada <ada@example.com>".',
            field=field,
        )
    return Mailbox(address, name)


def _sender(value: Any) -> Mailbox | None:
    return None if value is None else mailbox(value, "from")


def _mailboxes(value: Any, field: str) -> tuple[Mailbox, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (mailbox(value, field),)
    if not isinstance(value, Sequence):
        raise InvalidInput(f"{field} must be an address or a list of addresses, not {value!r:.60}.", field=field)
    return tuple(mailbox(one, f"{field}[{place}]") for place, one in enumerate(value))


def _subject(value: Any) -> str:
    """One line: a second one would be read as a header."""
    if not isinstance(value, str) or not value.strip() or len(value) > SUBJECT_LIMIT or len(value.splitlines()) > 1:
        raise InvalidInput(f"subject must be one line of 1 to {SUBJECT_LIMIT} characters, not {value!r:.60}.", field="subject")
    return value


def _content(value: Any, field: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{field} must be text, not {value!r:.60}.", field=field)
    return value


def _check_whole(email: Email) -> None:
    if not email.to:
        raise InvalidInput("to is missing: an e-mail needs at least one recipient.", field="to")
    if len(email.recipients) > RECIPIENT_LIMIT:
        raise InvalidInput(
            f"An e-mail may have at most {RECIPIENT_LIMIT} recipients, not {len(email.recipients)}. Submit several.", field="to"
        )
    if email.text is None and email.html is None:
        raise InvalidInput("An e-mail needs text or html.", field="text")
