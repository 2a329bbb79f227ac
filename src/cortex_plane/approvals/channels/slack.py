"""Approvals by a Slack app (https://docs.slack.dev/reference/methods/chat.postMessage): blocks with two buttons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from hmac import new as keyed_hash
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from cortex_plane.approvals.channels.base import (
    TIMEOUT_SECONDS,
    ChannelDown,
    ChannelRefused,
    InvalidSignature,
    Reply,
    Service,
    at,
    check_credential,
    document_of,
    header,
    text_at,
)
from cortex_plane.approvals.messages import (
    Address,
    ApprovalMessage,
    Click,
    ClosedMessage,
    Sent,
    button_data,
    button_meaning,
    details_of,
    message_view,
    one_line,
    origin,
    shortened,
    summary_of,
    title_of,
    utf16_size,
    when,
    without_fences,
)
from cortex_plane.clock import SECOND, Instant
from cortex_plane.http_client import Http

if TYPE_CHECKING:
    from cortex_plane.webhooks.model import Notice

SECTION_LIMIT = 3_000
HEADER_LIMIT = 150
WINDOW_SECONDS = 300
PLACE = re.compile(r"[A-Z][A-Z0-9]{2,20}")
TIMESTAMP = re.compile(r"[0-9]{1,12}")

# Slack responds 200 to nearly everything; these errors are temporary.
BUSY = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
DOWN = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"})

ACKNOWLEDGED = b""
"""The body of the acknowledgement, due within three seconds. The result is sent afterwards."""


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """Addresses are ids of users or channels. `interactive` is as in Telegram's."""

    http: Http = field(repr=False)
    bot_token: str = field(repr=False)
    base_url: str = "https://slack.com/api"
    interactive: bool = True
    timeout_seconds: float = TIMEOUT_SECONDS
    allow_private: bool = False
    name: str = "slack"
    edits: bool = True

    def __post_init__(self) -> None:
        check_credential(self.bot_token, "bot_token")
        self._service()

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        if not PLACE.fullmatch(to.id):
            raise ChannelRefused("A Slack address is the id of a user or a channel, such as U024BE7LH. Link it anew.")
        service = self._service(message.token)
        body = {"channel": to.id, "unfurl_links": False, "unfurl_media": False, **request_body(message, self.interactive)}
        reply = await self._call(service, "chat.postMessage", body)
        timestamp, channel = text_at(reply.document, "ts"), text_at(reply.document, "channel")
        if not timestamp or not channel:
            raise service.broken(reply)
        return Sent(timestamp, {"channel": channel, "shown": message_view(message)})

    async def notify(self, notice: Notice, to: Address) -> None:
        if not PLACE.fullmatch(to.id):
            raise ChannelRefused("A Slack address is the id of a user or a channel, such as C024BE7LH. Add it anew.")
        text = shortened(f"{notice.title}\n\n{notice.text}", SECTION_LIMIT)
        body = {"channel": to.id, "unfurl_links": False, "unfurl_media": False, "text": escaped(text)}
        await self._call(self._service(), "chat.postMessage", body)

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        body = {"channel": text_at(sent.where, "channel"), "ts": sent.message_id, **closed_body(sent, closed)}
        await self._call(self._service(), "chat.update", body)

    async def tell(self, click: Click, text: str) -> None:
        """Sends an ephemeral message to the user who clicked. Its URL came with the signed callback."""
        if not click.answer_to:
            raise ChannelRefused("Slack gave no address to answer this click at.")
        said = {"response_type": "ephemeral", "replace_original": False, "text": escaped(one_line(text))}
        service = Service("Slack", self.http, click.answer_to, {}, (click.answer_to,), self.timeout_seconds, self.allow_private)
        reply = await service.ask_at(click.answer_to, said)
        if not reply.accepted:
            raise service.refused("", "The click is too old to be answered.")

    def _service(self, *secrets: str) -> Service:
        headers = {"authorization": f"Bearer {self.bot_token}"}
        hide = (self.bot_token, *secrets)
        return Service("Slack", self.http, self.base_url, headers, hide, self.timeout_seconds, self.allow_private)

    async def _call(self, service: Service, method: str, body: dict[str, Any]) -> Reply:
        reply = await service.ask(f"/{method}", body)
        error = text_at(reply.document, "error")
        if at(reply.document, "ok") is True:
            return reply
        if error in BUSY:
            raise service.busy(reply.document, {})
        if error in DOWN:
            raise ChannelDown(f"Slack answered {error}. It is tried again later.")
        if reply.accepted and not error:
            raise service.broken(reply)
        raise service.refused(error, _ADVICE.get(error, "It can still be decided on its page."))


_NO_LOGIN = "Set the bot's token (xoxb-…) from the app's page OAuth & Permissions."
_ADVICE = {
    **dict.fromkeys(("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"), _NO_LOGIN),
    "channel_not_found": "Check the id of the user or channel, and invite the app to the channel.",
    "not_in_channel": "Invite the app to the channel.",
    "is_archived": "The channel is archived: link another one.",
    "missing_scope": "Give the app the scope chat:write (and im:write for people), and install it anew.",
    "message_not_found": "Somebody has deleted the message.",
    "cant_update_message": "The message was sent by another app.",
}


# -- sending -------------------------------------------------------------------------------------
def request_body(message: ApprovalMessage, interactive: bool = True) -> dict[str, Any]:
    """Only the details and the time use Slack's markup; plain text needs no escaping."""
    details = details_of(message.details, SECTION_LIMIT - len("```\n\n```"), _fenced_size)
    buttons = _buttons(message, interactive)
    blocks = [
        {"type": "header", "text": _plain(title_of(message, HEADER_LIMIT))},
        _section(summary_of(message)),
        _code(details.text),
        _section(details.note),
        _context(origin(message.agent, message.job_id), f"Expires {_time(message)}"),
        None if message.link else _section(f"To view and decide: {message.page_url}"),
        {"type": "actions", "elements": buttons} if buttons else None,
    ]
    return {"text": f"🔒 Approval needed: {escaped(title_of(message))}", "blocks": [block for block in blocks if block]}


def closed_body(sent: Sent, closed: ClosedMessage) -> dict[str, Any]:
    title = shortened(one_line(text_at(sent.where, "shown", "title")), HEADER_LIMIT)
    agent, job_id = text_at(sent.where, "shown", "agent") or "?", text_at(sent.where, "shown", "job_id") or "?"
    blocks = [
        {"type": "header", "text": _plain(title)} if title else None,
        _section(text_at(sent.where, "shown", "summary")),
        _section("\n".join(filter(None, [closed.headline, closed.remark]))),
        _context(origin(agent, job_id), escaped(closed.time)),
    ]
    headline = f"{closed.headline}: {title}" if title else closed.headline
    return {"text": escaped(headline), "blocks": [block for block in blocks if block]}


def escaped(text: str) -> str:
    """Escapes the three characters that begin and end mentions and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _section(text: str) -> dict[str, Any] | None:
    return {"type": "section", "text": _plain(shortened(text, SECTION_LIMIT))} if text else None


def _code(text: str) -> dict[str, Any] | None:
    marked = f"```\n{escaped(without_fences(text))}\n```"
    return {"type": "section", "text": {"type": "mrkdwn", "text": marked, "verbatim": True}} if text else None


def _fenced_size(text: str) -> int:
    return utf16_size(escaped(without_fences(text)))


def _context(text: str, markup: str) -> dict[str, Any]:
    return {"type": "context", "elements": [_plain(text), {"type": "mrkdwn", "text": markup, "verbatim": True}]}


def _time(message: ApprovalMessage) -> str:
    """In each reader's own time."""
    return f"<!date^{int(message.expires_at.timestamp())}^{{date_short_pretty}} {{time}}|{when(message.expires_at)}>"


def _buttons(message: ApprovalMessage, interactive: bool) -> list[dict[str, Any]]:
    decide = [
        {**_button("cortex_approve", "Approve"), "style": "primary", "value": button_data("approved", message.token)},
        {**_button("cortex_deny", "Deny"), "style": "danger", "value": button_data("denied", message.token)},
    ]
    look = [{**_button("cortex_open", "Open the page"), "url": message.link}] if message.link else []
    return [*(decide if interactive else []), *look]


def _button(action_id: str, text: str) -> dict[str, Any]:
    return {"type": "button", "action_id": action_id, "text": _plain(text)}


# -- receiving -----------------------------------------------------------------------------------
def verify(headers: Mapping[str, str], body: bytes, now: Instant, *, signing_secret: str) -> None:
    """Raises InvalidSignature unless Slack signed the request, within the last five minutes."""
    check_credential(signing_secret, "signing_secret")
    timestamp, given = header(headers, "x-slack-request-timestamp"), header(headers, "x-slack-signature")
    signed = b":".join([b"v0", timestamp.encode("utf-8", "replace"), body])
    expected = f"v0={keyed_hash(signing_secret.encode(), signed, sha256).hexdigest()}"
    if not compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise InvalidSignature("The request is not signed by Slack. Check the app's signing secret.")
    if not TIMESTAMP.fullmatch(timestamp) or abs(now // SECOND - int(timestamp)) > WINDOW_SECONDS:
        raise InvalidSignature("The request was signed more than five minutes ago, or this machine's clock is wrong.")


def parse_action(body: bytes) -> Click | None:
    """A click on one of our buttons; None for anything else, such as a click on the link."""
    payload = _payload(body)
    actions = at(payload, "actions") if at(payload, "type") == "block_actions" else None
    action = actions[0] if isinstance(actions, list) and actions else None
    meaning, user_id = button_meaning(at(action, "value")), text_at(payload, "user", "id")
    if meaning is None or not user_id:
        return None
    decision, token = meaning
    return Click(token, decision, user_id, _message(payload), text_at(payload, "response_url"))


def _payload(body: bytes) -> Mapping[str, Any]:
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=10)
    except ValueError:
        return {}
    return document_of(fields.get("payload", [""])[0].encode())


def _message(payload: object) -> Sent | None:
    timestamp = text_at(payload, "container", "message_ts")
    channel = text_at(payload, "container", "channel_id") or text_at(payload, "channel", "id")
    return Sent(timestamp, {"channel": channel}) if timestamp and channel else None
