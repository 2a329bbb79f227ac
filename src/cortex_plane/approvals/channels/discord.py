"""Discord: messages with buttons, and the check of signed clicks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cortex_plane.approvals.channels.base import (
    TIMEOUT_SECONDS,
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
    NOTE_LIMIT,
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
    without_fences,
)
from cortex_plane.clock import SECOND, Instant
from cortex_plane.errors import InvalidInput
from cortex_plane.http_client import Http

if TYPE_CHECKING:
    from cortex_plane.webhooks.model import Notice


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature of the message is valid for this key."""
    from cryptography.exceptions import InvalidSignature as WrongSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (WrongSignature, ValueError):
        return False
    return True


# -- discord -----------------------------------------------------------------------------------
# Approvals by a Discord bot (https://docs.discord.com/developers/reference): to a person or a channel, with two buttons.


CONTENT_LIMIT = 2_000
TITLE_LIMIT = 256
DESCRIPTION_LIMIT = 4_096
USER_AGENT = "DiscordBot (https://pypi.org/project/cortex-plane/, 0.1)"
SIGNATURE = re.compile(r"[0-9a-fA-F]{128}")
SNOWFLAKE = re.compile(r"[0-9]{1,20}")
TIMESTAMP = re.compile(r"[0-9]{1,12}")
WINDOW_SECONDS = 300

# These begin markup, mentions or links, and are escaped with a backslash.
SPECIAL = re.compile(r"([\\`*_~|<>#\-+\[\]():@])")

PING, COMPONENT = 1, 3
PONG, MESSAGE, DEFERRED_UPDATE, UPDATE = 1, 4, 6, 7
ROW, BUTTON = 1, 2
GREEN, RED, LINK = 3, 4, 5
ONLY_FOR_YOU = 1 << 6
NO_MENTIONS: Final = {"parse": list[str]()}

Ed25519 = Callable[[bytes, bytes, bytes], bool]
"""Verifies a signature: `is_signed(public_key, signature, message)`."""


@dataclass(frozen=True, slots=True)
class DiscordChannel:
    """Addresses are ids of users, who get a direct message, or of channels. `interactive` is as in Telegram's."""

    http: Http = field(repr=False)
    bot_token: str = field(repr=False)
    base_url: str = "https://discord.com/api/v10"
    interactive: bool = True
    timeout_seconds: float = TIMEOUT_SECONDS
    allow_private: bool = False
    name: str = "discord"
    edits: bool = True

    def __post_init__(self) -> None:
        check_credential(self.bot_token, "bot_token")
        self._service()

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        if not SNOWFLAKE.fullmatch(to.id):
            raise ChannelRefused("A Discord address is the number of a user or of a channel. Link it anew.")
        service = self._service(message.token)
        channel_id = to.id if to.kind == "channel" else await self._direct(service, to.id)
        reply = await self._call(service, f"/channels/{channel_id}/messages", request_body(message, self.interactive))
        return Sent(_snowflake(service, reply), {"channel_id": channel_id, "shown": message_view(message)})

    async def notify(self, notice: Notice, to: Address) -> None:
        if not SNOWFLAKE.fullmatch(to.id):
            raise ChannelRefused("A Discord address is the number of a channel. Add it anew.")
        text = shortened(escaped(f"{notice.title}\n\n{notice.text}"), CONTENT_LIMIT)
        body = {"content": text, "allowed_mentions": NO_MENTIONS}
        await self._call(self._service(), f"/channels/{to.id}/messages", body)

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        """Keeps the request, changes the headline and removes the buttons."""
        channel_id = text_at(sent.where, "channel_id")
        if not SNOWFLAKE.fullmatch(channel_id) or not SNOWFLAKE.fullmatch(sent.message_id):
            raise ChannelRefused("What is stored of this message is not what Discord gave; it stays as it is.")
        service = self._service()
        reply = await service.ask(f"/channels/{channel_id}/messages/{sent.message_id}", closed_body(closed), verb="PATCH")
        _check(service, reply)

    async def _direct(self, service: Service, user_id: str) -> str:
        """Opens the direct-message channel with a user. Idempotent."""
        return _snowflake(service, await self._call(service, "/users/@me/channels", {"recipient_id": user_id}))

    async def _call(self, service: Service, path: str, body: dict[str, Any]) -> Reply:
        reply = await service.ask(path, body)
        _check(service, reply)
        return reply

    def _service(self, *secrets: str) -> Service:
        headers = {"authorization": f"Bot {self.bot_token}", "user-agent": USER_AGENT, "content-type": "application/json"}
        hide = (self.bot_token, *secrets)
        return Service("Discord", self.http, self.base_url, headers, hide, self.timeout_seconds, self.allow_private)


def _check(service: Service, reply: Reply) -> None:
    if not reply.accepted:
        advice = _ADVICE.get(at(reply.document, "code")) or _ADVICE.get(reply.status) or "It can still be decided on its page."
        raise service.refused(text_at(reply.document, "message"), advice)


def _snowflake(service: Service, reply: Reply) -> str:
    found = text_at(reply.document, "id")
    if not SNOWFLAKE.fullmatch(found):
        raise service.broken(reply)
    return found


_ADVICE: dict[Any, str] = {
    401: "It does not know this bot: set the token from the developer portal.",
    10003: "There is no such channel for this bot: check the number, and invite the bot.",
    10008: "Somebody has deleted the message.",
    10013: "There is no such user: check the number.",
    50001: "Invite the bot to the channel.",
    50007: "The approver takes no direct messages from the bot: they must share a server with it and allow them.",
    50013: "Allow the bot to send messages in the channel.",
}


# -- sending -------------------------------------------------------------------------------------
def request_body(message: ApprovalMessage, interactive: bool = True) -> dict[str, Any]:
    embed = {"title": shortened(escaped(title_of(message)), TITLE_LIMIT), "description": _description(message)}
    row = _buttons(message, interactive)
    return {
        "content": "🔒 Approval needed",
        "embeds": [embed],
        "allowed_mentions": NO_MENTIONS,
        **({"components": [{"type": ROW, "components": row}]} if row else {}),
    }


def closed_body(closed: ClosedMessage) -> dict[str, Any]:
    said = "\n".join(filter(None, [f"{escaped(closed.headline)}, {closed.time}", escaped(closed.remark)]))
    return {"content": shortened(said, CONTENT_LIMIT), "components": [], "allowed_mentions": NO_MENTIONS}


def escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)


def _description(message: ApprovalMessage) -> str:
    """Discord shows the instant in each reader's own time."""
    at_second = int(message.expires_at.timestamp())
    above = [
        escaped(summary_of(message)),
        f"{escaped(origin(message.agent, message.job_id))}\nExpires <t:{at_second}:f>, <t:{at_second}:R>",
    ]
    below = [] if message.link else [f"To view and decide: {escaped(message.page_url)}"]
    left = DESCRIPTION_LIMIT - utf16_size("\n\n".join([*above, *below])) - NOTE_LIMIT - len("\n\n\n\n\n\n```json\n\n```")
    details = details_of(message.details, left, _fenced_size)
    block = [f"```json\n{without_fences(details.text)}\n```"] if details.text else []
    return "\n\n".join(filter(None, [*above, *block, details.note, *below]))


def _fenced_size(text: str) -> int:
    return utf16_size(without_fences(text))


def _buttons(message: ApprovalMessage, interactive: bool) -> list[dict[str, Any]]:
    decide = [
        {"type": BUTTON, "style": GREEN, "label": "Approve", "custom_id": button_data("approved", message.token)},
        {"type": BUTTON, "style": RED, "label": "Deny", "custom_id": button_data("denied", message.token)},
    ]
    look = [{"type": BUTTON, "style": LINK, "label": "Open the page", "url": message.link}] if message.link else []
    return [*(decide if interactive else []), *look]


# -- receiving -----------------------------------------------------------------------------------
class Ping:
    """Discord checks that the endpoint responds, and now and then that it rejects forged signatures. Respond with `pong()`."""


def verify(headers: Mapping[str, str], body: bytes, now: Instant, *, public_key: str, is_signed: Ed25519 = is_signed) -> None:
    """Raises InvalidSignature unless the application's key signed the request within the last five minutes.
    Respond with 401 then."""
    signature, timestamp = header(headers, "x-signature-ed25519"), header(headers, "x-signature-timestamp")
    if (
        not SIGNATURE.fullmatch(signature)
        or not timestamp.isascii()
        or not is_signed(_key(public_key), bytes.fromhex(signature), timestamp.encode() + body)
    ):
        raise InvalidSignature("The request is not signed by Discord. Check the application's public key.")
    if not TIMESTAMP.fullmatch(timestamp) or abs(now // SECOND - int(timestamp)) > WINDOW_SECONDS:
        raise InvalidSignature("The request was signed more than five minutes ago, or this machine's clock is wrong.")


def _key(public_key: str) -> bytes:
    if not re.fullmatch("[0-9a-fA-F]{64}", public_key):
        raise InvalidInput("public_key must be the 64 hexadecimal digits that the developer portal shows.", field="public_key")
    return bytes.fromhex(public_key)


def parse_interaction(body: bytes) -> Ping | Click | None:
    """A ping, or a click on one of our buttons; None for any other interaction."""
    interaction = document_of(body)
    if at(interaction, "type") == PING:
        return Ping()
    meaning = button_meaning(at(interaction, "data", "custom_id")) if at(interaction, "type") == COMPONENT else None
    user_id = text_at(interaction, "member", "user", "id") or text_at(interaction, "user", "id")
    if meaning is None or not user_id:
        return None
    decision, token = meaning
    return Click(token, decision, user_id, _message(interaction))


def _message(interaction: object) -> Sent | None:
    message_id, channel_id = text_at(interaction, "message", "id"), text_at(interaction, "message", "channel_id")
    return Sent(message_id, {"channel_id": channel_id}) if message_id and channel_id else None


# The body of the response to an interaction, due within three seconds.
def pong() -> dict[str, Any]:
    return {"type": PONG}


def deferred() -> dict[str, Any]:
    """Acknowledges; the message is edited later."""
    return {"type": DEFERRED_UPDATE}


def told(text: str) -> dict[str, Any]:
    """An ephemeral message to the user who clicked."""
    said = shortened(escaped(one_line(text)), CONTENT_LIMIT)
    return {"type": MESSAGE, "data": {"content": said, "flags": ONLY_FOR_YOU, "allowed_mentions": NO_MENTIONS}}


def updated(closed: ClosedMessage) -> dict[str, Any]:
    """Edits the message, as `edit` does."""
    return {"type": UPDATE, "data": closed_body(closed)}
