"""A mail server in one line: `smtp://user:password@mail.example.com:587?from=plane@example.com`."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from cortex_plane.core.emails import mailbox
from cortex_plane.core.errors import InvalidInput

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
        sender=_sender(options.get("from", "")),
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


def _sender(address: str) -> str:
    try:
        mailbox(address, "from")
    except InvalidInput:
        raise _wrong("needs an address that e-mails come from") from None
    return address


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(f"smtp_url {what}. Write {FORM}.", field="smtp_url")
