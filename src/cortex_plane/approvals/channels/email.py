"""Approvals by e-mail: a link to the page that decides, and a second e-mail once it is decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING

from cortex_plane.approvals.channels.base import ChannelDown, ChannelRefused, at, hidden, text_at
from cortex_plane.approvals.messages import (
    Address,
    ApprovalMessage,
    ClosedMessage,
    Details,
    Sent,
    closed_text,
    details_of,
    message_view,
    one_line,
    origin,
    plain,
    request_text,
    shortened,
    summary_of,
    title_of,
    when,
)
from cortex_plane.clock import Clock, as_datetime
from cortex_plane.errors import InvalidInput, Unavailable
from cortex_plane.integrations.email.model import Email, EmailTransport, Mailbox, mailbox
from cortex_plane.worker.failures import PermanentFailure

if TYPE_CHECKING:
    from cortex_plane.webhooks.model import Notice

DETAILS_LIMIT = 20_000  # Some mail programs cut an e-mail after 100 KB.
WORDS_LIMIT = 300


@dataclass(frozen=True, slots=True)
class EmailChannel:
    """Addresses are e-mail addresses."""

    transport: EmailTransport = field(repr=False)
    clock: Clock = field(repr=False)
    name: str = "email"
    edits: bool = False

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        recipient = _recipient(to.id)
        details = details_of(message.details, DETAILS_LIMIT)
        text, html = request_text(message, details, page=True), request_html(message, details)
        subject = f"Approval needed: {title_of(message)}"
        message_id = await self._post(message.key, recipient, subject, text, html, (message.token,))
        return Sent(message_id, {"to": recipient.address, "subject": subject, "shown": message_view(message)})

    async def notify(self, notice: Notice, to: Address) -> None:
        html = _page([f"<h2>{escape(notice.title)}</h2>", *map(_paragraph, notice.text.split("\n\n"))])
        await self._post(notice.key, _recipient(to.id), notice.title, notice.text, html, ())

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        """E-mails cannot be edited: sends a reply, with a Message-ID that is the same for each attempt."""
        recipient, shown = _recipient(text_at(sent.where, "to")), at(sent.where, "shown") or {}
        subject = f"Re: {shortened(one_line(text_at(sent.where, 'subject')), 200) or 'Approval'}"
        key = f"end-{sha256(sent.message_id.encode()).hexdigest()[:32]}"
        await self._post(key, recipient, subject, closed_text(closed, shown), closed_html(closed, shown), ())

    async def _post(self, key: str, to: Mailbox, subject: str, text: str, html: str, secrets: tuple[str, ...]) -> str:
        moment = as_datetime(self.clock.now())
        email = Email(key, moment, None, (to,), (), (), subject, text, html, ())
        try:
            return (await self.transport.send(email)).message_id
        except (PermanentFailure, InvalidInput) as error:
            raise ChannelRefused(f"{_quoted(error, secrets)}. Check the approver's address and the mail settings.") from None
        except Unavailable as error:
            raise ChannelDown(f"{_quoted(error, secrets)}. It is tried again later.") from None


def _recipient(address: str) -> Mailbox:
    try:
        return mailbox(address, "to")
    except InvalidInput:
        raise ChannelRefused("The approver's address is not an e-mail address. Link it anew.") from None


def _quoted(error: Exception, secrets: tuple[str, ...]) -> str:
    return shortened(one_line(hidden(str(error), secrets)), WORDS_LIMIT).rstrip(".")


# -- sending -------------------------------------------------------------------------------------
def request_html(message: ApprovalMessage, details: Details) -> str:
    """One button, to the page: virus scanners open every link, so no link may decide."""
    return _page(
        [
            f"<p>🔒 Approval needed</p><h2>{escape(title_of(message))}</h2>",
            _paragraph(summary_of(message)),
            f"<pre>{escape(details.text)}</pre>" if details.text else "",
            _paragraph(details.note),
            f'<p><a href="{escape(message.page_url)}">Look at it and decide</a></p>',
            f"<p>{origin(message.agent, message.job_id, _mark)}<br>Expires {when(message.expires_at)}</p>",
        ]
    )


def closed_html(closed: ClosedMessage, shown: dict[str, str]) -> str:
    return _page([_paragraph(part) for part in closed_text(closed, shown, plain).split("\n\n")])


def _page(parts: list[str]) -> str:
    return f'<!doctype html><html><head><meta charset="utf-8"></head><body>{"".join(parts)}</body></html>'


def _paragraph(text: str) -> str:
    return f"<p>{escape(text).replace(chr(10), '<br>')}</p>" if text else ""


def _mark(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text)}</{tag}>" if tag else escape(text)
