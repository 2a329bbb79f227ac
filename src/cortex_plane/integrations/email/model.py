"""E-mails, mail server URLs, and the transport protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from cortex_plane.errors import InvalidInput, Unavailable, did_you_mean

RECIPIENT_LIMIT = 100
SUBJECT_LIMIT = 900
FIELDS = ("to", "cc", "bcc", "subject", "text", "html", "reply_to", "from")

ADDRESS = re.compile(r'[^\s@<>()\[\]\\,;:"]{1,64}@(?!-)[^\s@<>()\[\]\\,;:".]+(\.[^\s@<>()\[\]\\,;:".]+)*')
ADDRESS_LIMIT = 254
MAILBOX_LIMIT = 1_000


class Mailbox(NamedTuple):
    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


class EmailInDoubt(Unavailable, ConnectionError):
    """The connection or the server failed before the answer arrived: the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Email:
    """`id` is the same at every attempt, so that a service can deduplicate, and receivers recognise a copy."""

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
    """`refused` are the recipients that the server rejected, with the reason."""

    message_id: str
    refused: Mapping[str, str]


def email_of(email_id: str, at: datetime, fields: Mapping[str, Any]) -> Email:
    """Validates the fields of a job; raises InvalidInput naming the field."""
    for name in fields:
        if name not in FIELDS:
            raise InvalidInput(
                f'An e-mail has no field "{name}".{did_you_mean(name, FIELDS)} It has: {", ".join(FIELDS)}.', field=name
            )
    email = Email(
        id=email_id,
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
    if not isinstance(value, str) or len(value) > MAILBOX_LIMIT or not value.isprintable():
        shown = repr(value[:60] if isinstance(value, str) else value)[:60]
        raise InvalidInput(
            f"{field} must be an address in one line of text of at most {MAILBOX_LIMIT} characters, not {shown}.", field=field
        )
    address, name = _parts(value.strip())
    if len(address) > ADDRESS_LIMIT or not ADDRESS.fullmatch(address):
        raise InvalidInput(
            f'{field} is {value!r:.80}, which is not an e-mail address. Write ada@example.com or "Ada <ada@example.com>".',
            field=field,
        )
    return Mailbox(address, name)


def _parts(text: str) -> tuple[str, str]:
    """The address and the name of `"Ada" <ada@example.com>`; any other form is taken as an address."""
    before, bracket, address = text.removesuffix(">").partition("<")
    name = before.rstrip().removeprefix('"').removesuffix('"')
    is_named = bracket and text.endswith(">") and not any(sign in name for sign in '"<>') and "<" not in address
    return (address, name) if is_named and ">" not in address else (text, "")


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


# -- smtp urls ---------------------------------------------------------------------------------
# A mail server in one line: `smtp://user:password@mail.example.com:587?from=plane@example.com`.


FORM = "smtp://user:password@mail.example.com:587?from=plane@example.com, or smtps:// for TLS from the first byte"
PORTS = {"smtp": 587, "smtps": 465}
TLS = ("starttls", "auto", "none")


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    sender: str
    username: str | None
    password: str | None = field(repr=False)
    tls: str


def mail_server(url: str) -> MailServer:
    """Raises InvalidInput without repeating anything of the address: it holds a password."""
    parts, port = _split(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme not in PORTS or not parts.hostname or options.keys() - {"from", "tls"}:
        raise _wrong("is not the address of a mail server")
    tls = "tls" if parts.scheme == "smtps" else options.get("tls", "starttls")
    if "tls" in options and (options["tls"] not in TLS or parts.scheme == "smtps"):
        raise _wrong(f"says tls=…, which smtp:// takes with one of {', '.join(TLS)}")
    return MailServer(
        host=parts.hostname,
        port=port or PORTS[parts.scheme],
        sender=_url_sender(options.get("from", "")),
        username=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        tls=tls,
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:
        raise _wrong("cannot be read") from None


def _url_sender(address: str) -> str:
    try:
        mailbox(address, "from")
    except InvalidInput:
        raise _wrong("needs an address that e-mails come from") from None
    return address


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(f"smtp_url {what}. Write {FORM}.", field="smtp_url")


# -- email -------------------------------------------------------------------------------------
# A transport that sends e-mails: an SMTP server, or a service with an HTTP API.


class EmailTransport(Protocol):
    @property
    def name(self) -> str:
        """The name in the audit log."""

    async def send(self, email: Email) -> SentEmail:
        """Sends one e-mail. Raises PermanentFailure if a retry would not help, Unavailable if it was not sent and a retry
        may help, and EmailInDoubt if it may have been sent. A transport with `sends_once = True` passes the id as
        idempotency key to a service that deduplicates."""
