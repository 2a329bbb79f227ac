"""Approvals by a Telegram bot (https://core.telegram.org/bots/api): messages with two buttons, and their callbacks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hmac import compare_digest
from html import escape
from typing import TYPE_CHECKING, Any

from cortex_plane.approvals.channels.base import (
    TIMEOUT_SECONDS,
    ChannelRefused,
    InvalidSignature,
    Reply,
    Service,
    at,
    check_credential,
    text_at,
)
from cortex_plane.approvals.messages import (
    NO_DETAILS,
    NOTE_LIMIT,
    Address,
    ApprovalMessage,
    Click,
    ClosedMessage,
    Sent,
    button_data,
    button_meaning,
    closed_text,
    details_of,
    message_view,
    request_text,
    shortened,
    utf16_size,
)
from cortex_plane.errors import InvalidInput
from cortex_plane.http_client import Http

if TYPE_CHECKING:
    from cortex_plane.webhooks.model import Notice

TEXT_LIMIT = 4_096  # Visible text, in UTF-16 units.
ANSWER_LIMIT = 200
BOT_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
CHAT = re.compile(r"-?[0-9]{1,18}|@[A-Za-z][A-Za-z0-9_]{3,31}")
NOT_MODIFIED = "message is not modified"


@dataclass(frozen=True, slots=True)
class TelegramChannel:
    """Addresses are chat ids. Without `interactive`, the message has only a button that opens the page."""

    http: Http = field(repr=False)
    bot_token: str = field(repr=False)
    base_url: str = "https://api.telegram.org"
    interactive: bool = True
    timeout_seconds: float = TIMEOUT_SECONDS
    allow_private: bool = False
    name: str = "telegram"
    edits: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.bot_token, str) or not BOT_TOKEN.fullmatch(self.bot_token):
            raise InvalidInput("bot_token must be a bot's token as @BotFather shows it: 123456:ABC-DEF.", field="bot_token")
        self._service()

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        if not CHAT.fullmatch(to.id):
            raise ChannelRefused("A Telegram address is the number of a chat, or @name of a channel. Link it anew.")
        service = self._service(message.token)
        reply = await self._call(service, "sendMessage", {"chat_id": to.id, **request_body(message, self.interactive)})
        message_id, chat_id = (text_at(reply.document, "result", *path) for path in (("message_id",), ("chat", "id")))
        if not message_id or not chat_id:
            raise service.broken(reply)
        return Sent(message_id, {"chat_id": chat_id, "shown": message_view(message)})

    async def notify(self, notice: Notice, to: Address) -> None:
        if not CHAT.fullmatch(to.id):
            raise ChannelRefused("A Telegram address is the number of a chat, or @name of a channel. Add it anew.")
        text = shortened(f"{notice.title}\n\n{notice.text}", TEXT_LIMIT // 2)
        await self._call(self._service(), "sendMessage", {"chat_id": to.id, **_text(_mark("", text))})

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        """Omitting `reply_markup` removes the buttons."""
        chat_id = text_at(sent.where, "chat_id")
        if not CHAT.fullmatch(chat_id) or not sent.message_id.isdecimal():
            raise ChannelRefused("What is stored of this message is not what Telegram gave; it stays as it is.")
        body = {"chat_id": chat_id, "message_id": int(sent.message_id), **closed_body(sent, closed)}
        await self._call(self._service(), "editMessageText", body)

    async def answer(self, click: Click, text: str) -> None:
        """Ends the spinner on the button. Telegram expires clicks soon, so errors are ignored."""
        await self._call(self._service(), "answerCallbackQuery", callback_answer(click, text))

    def _service(self, *secrets: str) -> Service:
        hide = (self.bot_token, *secrets)
        return Service("Telegram", self.http, self.base_url, {}, hide, self.timeout_seconds, self.allow_private)

    async def _call(self, service: Service, method: str, body: dict[str, Any]) -> Reply:
        reply = await service.ask(f"/bot{self.bot_token}/{method}", body)
        said = text_at(reply.document, "description")
        if at(reply.document, "ok") is True or NOT_MODIFIED in said:
            return reply
        if reply.accepted:
            raise service.broken(reply)
        raise service.refused(said, _advice(reply, said))


def _advice(reply: Reply, said: str) -> str:
    moved = text_at(reply.document, "parameters", "migrate_to_chat_id")
    if moved:
        return f"The group has become a supergroup: link the chat {moved} instead."
    if reply.status in (401, 404):
        return "It does not know this bot: set the token that @BotFather shows."
    if reply.status == 403:
        return "The approver must open a chat with the bot and press Start, or add it to the group."
    if "chat not found" in said:
        return "Check the chat's number. A person must write to the bot first."
    return "The message can still be decided on its page."


# -- sending -------------------------------------------------------------------------------------
def request_body(message: ApprovalMessage, interactive: bool = True) -> dict[str, Any]:
    """No preview: Telegram would fetch the page."""
    has_link = message.link is not None
    left = TEXT_LIMIT - utf16_size(request_text(message, NO_DETAILS, page=not has_link)) - NOTE_LIMIT
    details = details_of(message.details, left)
    keyboard = _keyboard(message, interactive)
    return {
        **_text(request_text(message, details, _mark, page=not has_link)),
        **({"reply_markup": {"inline_keyboard": keyboard}} if keyboard else {}),
    }


def closed_body(sent: Sent, closed: ClosedMessage) -> dict[str, Any]:
    return _text(closed_text(closed, at(sent.where, "shown") or {}, _mark))


def callback_answer(click: Click, text: str) -> dict[str, Any]:
    """Parameters of answerCallbackQuery. With `"method": "answerCallbackQuery"` added, they are also a valid webhook response."""
    return {"callback_query_id": click.answer_to, "text": shortened(text, ANSWER_LIMIT)}


def _keyboard(message: ApprovalMessage, interactive: bool) -> list[list[dict[str, str]]]:
    decide = [
        {"text": "✅ Approve", "callback_data": button_data("approved", message.token)},
        {"text": "❌ Deny", "callback_data": button_data("denied", message.token)},
    ]
    look = [{"text": "Open the page", "url": message.link}] if message.link else []
    return [row for row in (decide if interactive else [], look) if row]


def _text(html: str) -> dict[str, Any]:
    return {"text": html, "parse_mode": "HTML", "link_preview_options": {"is_disabled": True}}


def _mark(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text, quote=False)}</{tag}>" if tag else escape(text, quote=False)


# -- receiving -----------------------------------------------------------------------------------
def parse_callback(update: object, secret_token_header: str | None, *, secret_token: str) -> Click | None:
    """A click on one of our buttons; None for any other update. `secret_token` is the secret passed to setWebhook."""
    check_credential(secret_token, "secret_token")
    if not compare_digest((secret_token_header or "").encode("utf-8", "replace"), secret_token.encode()):
        raise InvalidSignature("The request lacks the secret of the Telegram webhook. Set the webhook anew if that was changed.")
    query = at(update, "callback_query")
    meaning = button_meaning(at(query, "data"))
    user_id, query_id = text_at(query, "from", "id"), text_at(query, "id")
    if meaning is None or not user_id or not query_id:
        return None
    decision, token = meaning
    return Click(token, decision, user_id, _message(query), query_id)


def _message(query: object) -> Sent | None:
    message_id, chat_id = text_at(query, "message", "message_id"), text_at(query, "message", "chat", "id")
    return Sent(message_id, {"chat_id": chat_id}) if message_id and chat_id else None
