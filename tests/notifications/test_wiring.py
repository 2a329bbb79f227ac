"""Which channels there are is what the settings say, and what was given in code."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.approvals.channels import DiscordChannel, EmailChannel, SlackChannel, TelegramChannel, WebhookChannel
from cortex_plane.integrations.email import SmtpTransport
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.testing import ManualClock
from cortex_plane.webhooks.model import EndpointId, Target
from cortex_plane.wiring import channels, http_client

pytestmark = pytest.mark.anyio

TOKENS = {"telegram_bot_token": "123456:ABC", "discord_bot_token": "MTk4", "slack_bot_token": "xoxb-1"}
CHECKS = {"telegram_webhook_secret": "x", "discord_public_key": "ab" * 32, "slack_signing_secret": "x"}
SMTP = "smtp://bot:hush@mail.example.com:2525?from=plane@example.com"


async def nowhere(endpoint_id: EndpointId) -> Target | None:
    return None


def made(own: Any = None, **settings: str) -> Any:
    return channels(Settings(**settings), http_client(), ManualClock(), nowhere, own)  # type: ignore[arg-type]


def test_without_settings_only_webhooks_are_there() -> None:
    found = made()

    assert set(found) == {"webhook"}
    assert isinstance(found["webhook"], WebhookChannel)
    assert found.get("telegram") is None
    with pytest.raises(KeyError):
        found["telegram"]


def test_a_token_makes_each_of_the_others() -> None:
    found = made(**TOKENS, smtp_url=SMTP)

    assert len(found) == 5
    kinds = {"telegram": TelegramChannel, "discord": DiscordChannel, "slack": SlackChannel, "email": EmailChannel}
    for name, kind in kinds.items():
        assert isinstance(found[name], kind)
        assert (found[name].name, found[name] is found[name]) == (name, True)


def test_a_mail_server_is_read_from_one_line() -> None:
    transport = made(smtp_url=SMTP)["email"].transport

    assert transport == SmtpTransport("mail.example.com", "plane@example.com", 2525, "bot", "hush", "starttls")


@pytest.mark.parametrize("name", ["telegram", "discord", "slack"])
def test_buttons_that_decide_are_shown_where_clicks_can_be_checked(name: str) -> None:
    assert made(**TOKENS)[name].interactive is False
    assert made(**TOKENS, **CHECKS)[name].interactive is True


@pytest.mark.parametrize("name", ["telegram", "discord", "slack"])
def test_only_a_service_that_was_put_elsewhere_may_be_at_a_private_address(name: str) -> None:
    assert made(**TOKENS)[name].allow_private is False
    assert made(**TOKENS, **{f"{name}_url": "http://127.0.0.1:81"})[name].allow_private is True


def test_what_is_given_in_code_goes_before_the_settings() -> None:
    own: Any = object()

    found = made({"telegram": own, "pigeon": own}, **TOKENS)

    assert (found["telegram"], found["pigeon"], len(found)) == (own, own, 5)


async def test_a_plane_takes_channels() -> None:
    own: Any = object()

    assert Plane("sqlite:///unused.db", channels={"telegram": own}).channels == {"telegram": own}
