"""Sends by SMTP. What the server refuses for good (5xx) is not tried again; what it refuses for now (4xx) is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from typing import TYPE_CHECKING

from cortex_plane.core.emails import Email, Mailbox, SentEmail, mailbox
from cortex_plane.core.errors import InvalidInput, Unavailable
from cortex_plane.runtime.failures import PermanentFailure

if TYPE_CHECKING:
    from aiosmtplib import SMTPRecipientsRefused

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SmtpTransport:
    """`tls` is "starttls", "tls" (from the first byte, port 465), "auto" (STARTTLS if the server has it) or "none"."""

    host: str
    sender: str
    port: int = 587
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: str = "starttls"
    timeout_seconds: float = TIMEOUT_SECONDS
    name: str = "smtp"

    def __post_init__(self) -> None:
        if self.tls not in ("starttls", "tls", "auto", "none"):
            raise InvalidInput(f'tls must be "starttls", "tls", "auto" or "none", not {self.tls!r:.40}.', field="tls")

    async def send(self, email: Email) -> SentEmail:
        import aiosmtplib

        sender = email.sender or mailbox(self.sender, "sender")
        message = _message(email, sender)
        try:
            refused, _ = await aiosmtplib.send(
                message,
                sender=sender.address,
                recipients=[one.address for one in email.recipients],
                hostname=self.host,
                port=self.port,
                username=self.username,
                password=self.password,
                use_tls=self.tls == "tls",
                start_tls={"starttls": True, "auto": None}.get(self.tls, False),
                timeout=self.timeout_seconds,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise _nobody_took_it(error) from error
        except aiosmtplib.SMTPResponseException as error:
            raise _failure(error.code, f"{self.host} answered {error.code}: {error.message}") from error
        except aiosmtplib.SMTPNotSupported as error:
            raise PermanentFailure(f"{self.host} cannot do what is needed: {error}") from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise Unavailable(f"{self.host} did not take the e-mail: {str(error) or type(error).__name__}") from error
        return SentEmail(str(message["Message-ID"]), {address: reply.message for address, reply in refused.items()})


def _failure(code: int, message: str) -> Exception:
    return PermanentFailure(message) if code >= 500 else Unavailable(message)


def _nobody_took_it(error: SMTPRecipientsRefused) -> Exception:
    """Worth another try as long as one of the refusals is only for now."""
    said = "; ".join(f"{one.recipient}: {one.code} {one.message}" for one in error.recipients)
    return _failure(min(one.code for one in error.recipients), f"The server refused every recipient: {said}")


def _message(email: Email, sender: Mailbox) -> EmailMessage:
    """Without the hidden recipients. The id is the job's, so that receivers know an e-mail that comes twice."""
    message = EmailMessage()
    message["Message-ID"] = f"<{email.id}@{sender.domain}>"
    message["Date"] = email.at
    message["From"] = _address(sender)
    message["To"] = _addresses(email.to)
    if email.cc:
        message["Cc"] = _addresses(email.cc)
    if email.reply_to:
        message["Reply-To"] = _addresses(email.reply_to)
    message["Subject"] = email.subject
    if email.text is not None:
        message.set_content(email.text)
        if email.html is not None:
            message.add_alternative(email.html, subtype="html")
    else:
        message.set_content(email.html or "", subtype="html")
    return message


def _addresses(mailboxes: Sequence[Mailbox]) -> list[Address]:
    return [_address(one) for one in mailboxes]


def _address(one: Mailbox) -> Address:
    return Address(one.name, one.address.rpartition("@")[0], one.domain)
