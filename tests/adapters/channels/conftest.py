"""The three chat services on this machine, each behind a server, and a channel that speaks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from cortex_plane.approvals.channels import DiscordChannel, SlackChannel, TelegramChannel
from cortex_plane.approvals.messages import Address
from cortex_plane.http_client import HttpxClient
from tests.adapters.channels import discord_fake, slack_fake, telegram_fake
from tests.adapters.channels.discord_fake import Discord
from tests.adapters.channels.server import Server, served
from tests.adapters.channels.slack_fake import Slack
from tests.adapters.channels.telegram_fake import Telegram


@dataclass
class Chat:
    """One service: where it is, how it is spoken to, and a person whom it knows."""

    name: str
    server: Server
    fake: Any
    make: Any
    bot_token: str
    address: Address

    def channel(self, **options: Any) -> Any:
        asked = {
            "bot_token": self.bot_token,
            "base_url": self.server.url,
            "allow_private": True,
            "timeout_seconds": 5.0,
            **options,
        }
        return self.make(HttpxClient(), **asked)


def _telegram() -> tuple[Any, Any, str, Address]:
    return Telegram(), TelegramChannel, telegram_fake.BOT_TOKEN, Address(str(telegram_fake.CHAT_ID))


def _discord() -> tuple[Any, Any, str, Address]:
    return Discord(), DiscordChannel, discord_fake.BOT_TOKEN, Address(discord_fake.USER_ID)


def _slack() -> tuple[Any, Any, str, Address]:
    return Slack(), SlackChannel, slack_fake.BOT_TOKEN, Address(slack_fake.USER_ID)


SERVICES = {"telegram": _telegram, "discord": _discord, "slack": _slack}


async def _serve(name: str) -> AsyncIterator[Chat]:
    fake, make, bot_token, address = SERVICES[name]()
    async with served(fake) as server:
        yield Chat(name, server, fake, make, bot_token, address)


@pytest.fixture(params=["telegram", "discord", "slack"])
async def chat(request: pytest.FixtureRequest) -> AsyncIterator[Chat]:
    """Each of them."""
    async for made in _serve(request.param):
        yield made


@pytest.fixture
async def telegram() -> AsyncIterator[Chat]:
    async for made in _serve("telegram"):
        yield made


@pytest.fixture
async def discord() -> AsyncIterator[Chat]:
    async for made in _serve("discord"):
        yield made


@pytest.fixture
async def slack() -> AsyncIterator[Chat]:
    async for made in _serve("slack"):
        yield made
