"""Callbacks of each service for pressed buttons, and their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cortex_plane.approvals.channels import discord, slack, telegram
from cortex_plane.approvals.channels.base import Greeting, document_of, header
from cortex_plane.approvals.messages import Click, ClosedMessage
from cortex_plane.clock import Clock

SECRET_HEADER = "x-telegram-bot-api-secret-token"


@dataclass(frozen=True, slots=True)
class TelegramClicks:
    """The response to the webhook is itself a call of Telegram's API."""

    secret_token: str = field(repr=False)

    def read(self, headers: Mapping[str, str], body: bytes) -> Click | Greeting | None:
        return telegram.parse_callback(document_of(body), header(headers, SECRET_HEADER), secret_token=self.secret_token)

    def answer(self, click: Click, text: str, closed: ClosedMessage | None) -> dict[str, Any]:
        return {"method": "answerCallbackQuery", **telegram.callback_answer(click, text)}

    def acknowledge(self, greeting: Greeting | None) -> dict[str, Any]:
        return {}

    async def tell(self, click: Click, text: str) -> None:
        """Not needed: the response contains the result."""


@dataclass(frozen=True, slots=True)
class DiscordClicks:
    """A decision edits the message at once; any other result is shown to the user who clicked."""

    public_key: str
    clock: Clock = field(repr=False)

    def read(self, headers: Mapping[str, str], body: bytes) -> Click | Greeting | None:
        discord.verify(headers, body, self.clock.now(), public_key=self.public_key)
        found = discord.parse_interaction(body)
        return Greeting() if isinstance(found, discord.Ping) else found

    def answer(self, click: Click, text: str, closed: ClosedMessage | None) -> dict[str, Any]:
        return discord.told(text) if closed is None else discord.updated(closed)

    def acknowledge(self, greeting: Greeting | None) -> dict[str, Any]:
        return discord.told("This is not one of our buttons.") if greeting is None else discord.pong()

    async def tell(self, click: Click, text: str) -> None:
        """Not needed: the response contains the result."""


@dataclass(frozen=True, slots=True)
class SlackClicks:
    """Slack expects only an acknowledgement; the result is sent afterwards."""

    channel: slack.SlackChannel
    signing_secret: str = field(repr=False)
    clock: Clock = field(repr=False)

    def read(self, headers: Mapping[str, str], body: bytes) -> Click | Greeting | None:
        slack.verify(headers, body, self.clock.now(), signing_secret=self.signing_secret)
        return slack.parse_action(body)

    def answer(self, click: Click, text: str, closed: ClosedMessage | None) -> None:
        return None

    def acknowledge(self, greeting: Greeting | None) -> None:
        return None

    async def tell(self, click: Click, text: str) -> None:
        await self.channel.tell(click, text)
