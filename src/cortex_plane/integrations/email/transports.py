"""E-mail transports: SMTP, Resend, Microsoft Graph."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cortex_plane.clock import utc_now
from cortex_plane.errors import InvalidInput, Unavailable
from cortex_plane.extras import require_extra
from cortex_plane.integrations.email.model import Email, EmailInDoubt, Mailbox, SentEmail, mailbox
from cortex_plane.jobs.retry import retry_after_seconds
from cortex_plane.worker.failures import PermanentFailure, RetryAfter

if TYPE_CHECKING:
    import httpx
    from aiosmtplib import SMTPRecipientsRefused


TIMEOUT_SECONDS = 30.0
MESSAGE_LIMIT = 500

# Request timeout, too early, too many requests: the request itself is fine.
TRY_AGAIN = frozenset({408, 425, 429})

# A server that broke down, or a proxy that got no answer from it: the e-mail may be on its way.
MAY_HAVE_SENT = frozenset({500, 502, 504})


async def post(url: str, *, headers: Mapping[str, str], **body: Any) -> httpx.Response:
    import httpx

    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
            return await client.post(url, headers=dict(headers), **body)
    except httpx.HTTPError as error:
        never_asked = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        kind = Unavailable if never_asked else EmailInDoubt
        raise kind(f"{httpx.URL(url).host} gave no answer: {str(error) or type(error).__name__}") from error


def check(response: httpx.Response, service: str, message: str, *, sends: bool = True) -> None:
    """Raises for an error status. A rejected request is permanent; a busy or failing server may recover, and may say when.
    If it failed during a request that sends, the outcome is unknown."""
    if response.is_success:
        return
    said = f"{service} answered {response.status_code}: {message[:MESSAGE_LIMIT] or response.reason_phrase}"
    if response.is_client_error and response.status_code not in TRY_AGAIN:
        raise PermanentFailure(said)
    if sends and response.status_code in MAY_HAVE_SENT:
        raise EmailInDoubt(said)
    wait = retry_after_seconds(response.headers.get("retry-after", ""), utc_now(), response.headers.get("date", ""))
    raise Unavailable(said) if wait is None else RetryAfter(wait, said)


def document_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of the answer; empty if there is none."""
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


# -- smtp --------------------------------------------------------------------------------------
# Sends by SMTP. Permanent errors (5xx) are not retried; temporary ones (4xx) are.


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
        require_extra("email", "Sending e-mail by SMTP")
        if self.tls not in ("starttls", "tls", "auto", "none"):
            raise InvalidInput(f'tls must be "starttls", "tls", "auto" or "none", not {self.tls!r:.40}.', field="tls")

    async def send(self, email: Email) -> SentEmail:
        import aiosmtplib

        sender = email.sender or mailbox(self.sender, "sender")
        message = _smtp_message(email, sender)
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
        except (aiosmtplib.SMTPConnectError, ConnectionRefusedError) as error:
            raise Unavailable(f"{self.host} cannot be reached: {str(error) or type(error).__name__}") from error
        except (aiosmtplib.SMTPServerDisconnected, aiosmtplib.SMTPTimeoutError, OSError) as error:
            raise EmailInDoubt(f"{self.host} did not say that it took it: {str(error) or type(error).__name__}") from error
        except aiosmtplib.SMTPException as error:
            raise Unavailable(f"{self.host} did not take the e-mail: {str(error) or type(error).__name__}") from error
        return SentEmail(str(message["Message-ID"]), {address: reply.message for address, reply in refused.items()})


def _failure(code: int, message: str) -> Exception:
    return PermanentFailure(message) if code >= 500 else Unavailable(message)


def _nobody_took_it(error: SMTPRecipientsRefused) -> Exception:
    """Retried if at least one of the refusals is temporary."""
    said = "; ".join(f"{one.recipient}: {one.code} {one.message}" for one in error.recipients)
    return _failure(min(one.code for one in error.recipients), f"The server refused every recipient: {said}")


def _smtp_message(email: Email, sender: Mailbox) -> EmailMessage:
    """Without Bcc recipients. The id is the same at every attempt, so that receivers recognise a copy."""
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


# -- resend ------------------------------------------------------------------------------------
# Sends by Resend (https://resend.com/docs/api-reference/emails/send-email).


# Another attempt with this key is in progress.
CONCURRENT = "concurrent_idempotent_requests"


@dataclass(frozen=True, slots=True)
class ResendTransport:
    """`sender` is used where an e-mail names none; its domain must be verified there."""

    api_key: str = field(repr=False)
    sender: str
    base_url: str = "https://api.resend.com"
    name: str = "resend"
    sends_once: bool = True

    async def send(self, email: Email) -> SentEmail:
        headers = {"authorization": f"Bearer {self.api_key}", "idempotency-key": email.id}
        response = await post(f"{self.base_url.rstrip('/')}/emails", headers=headers, json=self._body(email))
        answer = document_of(response)
        if answer.get("name") == CONCURRENT:
            raise Unavailable("Resend is sending this e-mail at this moment, for an earlier attempt.")
        check(response, "Resend", str(answer.get("message", "")))
        return SentEmail(str(answer.get("id", "")), {})

    def _body(self, email: Email) -> dict[str, Any]:
        body = {
            "from": _text(email.sender or mailbox(self.sender, "sender")),
            "to": _texts(email.to),
            "cc": _texts(email.cc),
            "bcc": _texts(email.bcc),
            "reply_to": _texts(email.reply_to),
            "subject": email.subject,
            "text": email.text,
            "html": email.html,
        }
        return {name: value for name, value in body.items() if value not in (None, [])}


def _texts(mailboxes: Sequence[Mailbox]) -> list[str]:
    return [_text(one) for one in mailboxes]


def _text(one: Mailbox) -> str:
    return f"{one.name} <{one.address}>" if one.name else one.address


# -- graph -------------------------------------------------------------------------------------
# Sends by Microsoft Graph, as an application (client credentials) that may send for a mailbox (Mail.Send).


RENEW_SECONDS_BEFORE = 60.0
UNAUTHORIZED = 401


@dataclass(slots=True)
class GraphTransport:
    """`sender` is the mailbox that is sent from where an e-mail names none."""

    tenant_id: str
    client_id: str
    client_secret: str = field(repr=False)
    sender: str
    base_url: str = "https://graph.microsoft.com"
    login_url: str = "https://login.microsoftonline.com"
    scope: str = "https://graph.microsoft.com/.default"
    save_to_sent_items: bool = True
    name: str = "graph"
    _token: str = field(default="", repr=False, init=False)
    _token_until: float = field(default=0.0, repr=False, init=False)

    async def send(self, email: Email) -> SentEmail:
        sender = email.sender or mailbox(self.sender, "sender")
        url = f"{self.base_url.rstrip('/')}/v1.0/users/{quote(sender.address)}/sendMail"
        body = {"message": _message(email), "saveToSentItems": self.save_to_sent_items}
        response = await post(url, headers=await self._authorization(), json=body)
        if response.status_code == UNAUTHORIZED:  # The token may have been revoked before its time.
            self._token_until = 0.0
            response = await post(url, headers=await self._authorization(), json=body)
        error = document_of(response).get("error")
        check(response, "Microsoft Graph", _words(error))
        return SentEmail(response.headers.get("request-id", ""), {})

    async def _authorization(self) -> dict[str, str]:
        if time.monotonic() >= self._token_until:
            await self._log_in()
        return {"authorization": f"Bearer {self._token}"}

    async def _log_in(self) -> None:
        url = f"{self.login_url.rstrip('/')}/{quote(self.tenant_id)}/oauth2/v2.0/token"
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "scope": self.scope,
        }
        try:
            response = await post(url, headers={}, data=form)
        except EmailInDoubt as error:  # Nothing was to be sent yet.
            raise Unavailable(str(error)) from error
        answer = document_of(response)
        check(response, "The Microsoft login", str(answer.get("error_description") or answer.get("error") or ""), sends=False)
        self._token = str(answer.get("access_token", ""))
        self._token_until = time.monotonic() + float(answer.get("expires_in", 0)) - RENEW_SECONDS_BEFORE


def _message(email: Email) -> dict[str, Any]:
    """Graph accepts one content: HTML if there is any."""
    content = (
        {"contentType": "Text", "content": email.text} if email.html is None else {"contentType": "HTML", "content": email.html}
    )
    return {
        "subject": email.subject,
        "body": content,
        "toRecipients": _recipients(email.to),
        "ccRecipients": _recipients(email.cc),
        "bccRecipients": _recipients(email.bcc),
        "replyTo": _recipients(email.reply_to),
        "internetMessageHeaders": [{"name": "x-cortex-email-id", "value": email.id}],
    }


def _recipients(mailboxes: Sequence[Mailbox]) -> list[dict[str, Any]]:
    return [{"emailAddress": {"address": one.address, **({"name": one.name} if one.name else {})}} for one in mailboxes]


def _words(error: Any) -> str:
    return f"{error.get('code', '')}: {error.get('message', '')}" if isinstance(error, dict) else ""
