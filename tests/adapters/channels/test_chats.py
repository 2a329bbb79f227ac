"""What holds for Telegram, Discord and Slack alike: send, edit, what is tried again, and what never gets into an error."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from cortex_plane.approvals.channels.base import Channel, ChannelBusy, ChannelDown, ChannelRefused, busy_seconds
from cortex_plane.approvals.messages import Address, Sent
from cortex_plane.errors import InvalidInput
from cortex_plane.http_client import HttpxClient
from tests.adapters.channels.conftest import Chat
from tests.adapters.channels.messages import APPROVED, TOKEN, message
from tests.adapters.channels.server import HANG, HANG_UP, raw, raw_json

pytestmark = pytest.mark.anyio


async def test_a_message_is_sent_with_its_buttons_and_loses_them_when_it_is_decided(chat: Chat) -> None:
    channel: Channel = chat.channel()
    sent = await channel.send(message(), chat.address)
    asked = json.dumps(chat.fake.messages, ensure_ascii=False)
    await channel.edit(sent, APPROVED)
    closed = json.dumps(chat.fake.messages, ensure_ascii=False)

    assert (asked.count(f"a:{TOKEN}"), asked.count(f"d:{TOKEN}")) == (1, 1)
    assert TOKEN not in closed
    assert "✅ Approved by Alice" in closed
    assert "Deploy 1" in closed
    assert channel.name == chat.name


async def test_what_is_stored_of_a_message_survives_json_and_holds_no_secret(chat: Chat) -> None:
    sent = await chat.channel().send(message(), chat.address)
    stored = json.dumps({"message_id": sent.message_id, "where": sent.where})
    await chat.channel().edit(Sent(**json.loads(stored)), APPROVED)

    assert TOKEN not in stored
    assert chat.bot_token not in stored
    assert "Approved by Alice" in json.dumps(chat.fake.messages)


async def test_editing_twice_is_harmless(chat: Chat) -> None:
    channel = chat.channel()
    sent = await channel.send(message(), chat.address)
    await channel.edit(sent, APPROVED)
    before = json.dumps(chat.fake.messages)
    await channel.edit(sent, APPROVED)

    assert json.dumps(chat.fake.messages) == before


# -- trouble -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        raw(500, b"oops"),
        raw(502, b"<html>Bad Gateway</html>"),
        raw_json(503, {"ok": False, "error": "service_unavailable"}),
        raw(408),
        raw(200, b"not JSON"),
        raw(200, b"[]"),
        raw(200, b"{}"),
        raw_json(200, {"ok": True, "result": True, "id": "../../x"}),
        HANG_UP,
    ],
)
async def test_a_service_that_is_broken_is_down(chat: Chat, answer: bytes) -> None:
    chat.server.instead.append(answer)
    with pytest.raises(ChannelDown):
        await chat.channel().send(message(), chat.address)

    assert chat.fake.messages == {}


async def test_a_service_that_hangs_is_down(chat: Chat) -> None:
    chat.server.instead.append(HANG)
    with pytest.raises(ChannelDown, match=r"did not answer within 0\.2 s"):
        await chat.channel(timeout_seconds=0.2).send(message(), chat.address)


async def test_nobody_there_is_down(chat: Chat) -> None:
    with pytest.raises(ChannelDown, match="cannot be reached"):
        await chat.channel(base_url="http://127.0.0.1:9").send(message(), chat.address)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (raw(429, b"slow down", retry_after="7"), 7.0),
        (
            raw_json(429, {"ok": False, "error_code": 429, "description": "Too Many", "parameters": {"retry_after": 5}}),
            5.0,
        ),
        (raw_json(429, {"message": "You are being rate limited.", "retry_after": 0.3, "global": False}, retry_after="1"), 0.3),
        (raw_json(429, {"ok": False, "error": "ratelimited"}, retry_after="30"), 30.0),
        (raw(429, date="Wed, 21 Oct 2026 07:28:00 GMT", retry_after="Wed, 21 Oct 2026 07:29:30 GMT"), 90.0),
        (raw(429, date="Wed, 21 Oct 2026 07:28:00 GMT", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), 0.0),
        (raw(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), 30.0),  # Compared with what? Its own clock is not told.
        (raw(429, retry_after="9" * 400), 86_400.0),
        (raw(429), 30.0),
    ],
)
async def test_a_service_that_is_busy_says_for_how_long(chat: Chat, answer: bytes, seconds: float) -> None:
    chat.server.instead.append(answer)
    with pytest.raises(ChannelBusy) as busy:
        await chat.channel().send(message(), chat.address)

    assert busy.value.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("wishes", "seconds"),
    [
        ((None, "2.5"), 2.5),
        (("soon", 4), 4.0),
        ((-1, "nan", "inf", True, [], None), 30.0),
        ((10**400, 3), 3.0),
        ((1e12,), 86_400.0),
        (("Wed, 21 Oct 2026 07:28:00 GMT",), 30.0),
        ((0,), 0.0),
    ],
)
def test_only_sensible_waits_are_believed(wishes: tuple[object, ...], seconds: float) -> None:
    assert busy_seconds(*wishes) == seconds


async def test_editing_meets_the_same_troubles(chat: Chat) -> None:
    channel = chat.channel()
    sent = await channel.send(message(), chat.address)
    chat.server.instead.extend([raw(500), raw(429, retry_after="3")])

    with pytest.raises(ChannelDown):
        await channel.edit(sent, APPROVED)
    with pytest.raises(ChannelBusy):
        await channel.edit(sent, APPROVED)


async def test_a_message_that_was_deleted_cannot_be_edited_and_that_is_final(chat: Chat) -> None:
    sent = await chat.channel().send(message(), chat.address)
    chat.fake.messages.clear()
    with pytest.raises(ChannelRefused):
        await chat.channel().edit(sent, APPROVED)


@pytest.mark.parametrize("address", ["", "x", "../../users/@me", "1/../2", "12 34", "'; drop", "٣"])
async def test_an_address_that_cannot_be_one_is_refused_before_anybody_is_asked(chat: Chat, address: str) -> None:
    with pytest.raises(ChannelRefused, match="address is the"):
        await chat.channel().send(message(), Address(address))

    assert chat.server.requests == []


async def test_a_bot_that_the_service_does_not_know_is_refused_with_advice(chat: Chat) -> None:
    with pytest.raises(ChannelRefused, match=r"[Ss]et the .*token"):
        await chat.channel(bot_token="999:wrong").send(message(), chat.address)


async def test_a_redirect_is_not_followed_with_our_secrets(chat: Chat) -> None:
    chat.server.instead.append(raw(302, location=chat.server.url))
    with pytest.raises(ChannelRefused, match="redirect"):
        await chat.channel().send(message(), chat.address)

    assert len(chat.server.requests) == 1


async def test_a_private_base_address_must_be_allowed(chat: Chat) -> None:
    with pytest.raises(InvalidInput, match="private"):
        chat.channel(allow_private=False)


async def test_a_name_that_leads_to_a_private_address_is_refused(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", ("127.0.0.1", chat.server.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    with pytest.raises(ChannelRefused, match="not a public address"):
        await chat.channel(base_url="http://api.example.com", allow_private=False).send(message(), chat.address)

    assert chat.server.requests == []


# -- secrets -------------------------------------------------------------------------------------


def everything_said(error: BaseException | None) -> str:
    """The error and whatever a log would show below it."""
    said = ""
    while error is not None:
        said += str(error) + repr(error)
        error = error.__cause__
    return said


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 408, 413, 429, 500, 503])
async def test_a_service_that_repeats_our_secrets_gets_none_into_an_error(chat: Chat, status: int) -> None:
    """Proxies put the address that was asked for into their pages."""
    echo = f"/bot{chat.bot_token}/sendMessage {chat.bot_token.replace(':', '%3A')} {TOKEN} {message().page_url}"
    for answer in (
        raw(status, echo.encode(), location=f"http://127.0.0.1/{chat.bot_token}"),
        raw_json(status, {"ok": False, "description": echo, "message": echo, "error": echo, "code": 50035}),
    ):
        chat.server.instead.append(answer)
        with pytest.raises((ChannelRefused, ChannelBusy, ChannelDown)) as failed:
            await chat.channel().send(message(), chat.address)
        said = everything_said(failed.value)

        assert chat.bot_token not in said
        assert chat.bot_token.replace(":", "%3A") not in said
        assert TOKEN not in said


async def test_no_secret_is_logged_or_shown(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    channel = chat.channel()
    sent = await channel.send(message(), chat.address)
    await channel.edit(sent, APPROVED)
    shown = caplog.text + repr(channel) + repr(sent) + repr(chat.address) + repr(channel._service(TOKEN))

    assert chat.bot_token not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "1:x\r\nX-Evil: 1", "ünsafe", None, 7])
async def test_credentials_that_could_not_be_sent_are_refused_at_once_and_not_repeated(chat: Chat, token: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        chat.make(HttpxClient(), token)

    assert refused.value.field == "bot_token"
    assert not token or str(token) not in str(refused.value)
