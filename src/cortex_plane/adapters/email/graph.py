"""Sends by Microsoft Graph, as an application (client credentials) that may send for a mailbox (Mail.Send)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from cortex_plane.adapters.email.api import check, document_of, post
from cortex_plane.core.emails import Email, Mailbox, SentEmail, mailbox

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
        response = await post(url, headers={}, data=form)
        answer = document_of(response)
        check(response, "The Microsoft login", str(answer.get("error_description") or answer.get("error") or ""))
        self._token = str(answer.get("access_token", ""))
        self._token_until = time.monotonic() + float(answer.get("expires_in", 0)) - RENEW_SECONDS_BEFORE


def _message(email: Email) -> dict[str, Any]:
    """Graph takes one content; whoever can read HTML gets that."""
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
        "internetMessageHeaders": [{"name": "x-cortex-job-id", "value": email.id}],
    }


def _recipients(mailboxes: Sequence[Mailbox]) -> list[dict[str, Any]]:
    return [{"emailAddress": {"address": one.address, **({"name": one.name} if one.name else {})}} for one in mailboxes]


def _words(error: Any) -> str:
    return f"{error.get('code', '')}: {error.get('message', '')}" if isinstance(error, dict) else ""
