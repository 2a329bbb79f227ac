"""Sends by Resend (https://resend.com/docs/api-reference/emails/send-email)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cortex_plane.adapters.email.api import check, document_of, post
from cortex_plane.core.emails import Email, Mailbox, SentEmail, mailbox
from cortex_plane.core.errors import Unavailable

# Another attempt with this key is on its way at this moment.
CONCURRENT = "concurrent_idempotent_requests"


@dataclass(frozen=True, slots=True)
class ResendTransport:
    """`sender` is used where an e-mail names none; its domain must be verified there."""

    api_key: str = field(repr=False)
    sender: str
    base_url: str = "https://api.resend.com"
    name: str = "resend"

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
