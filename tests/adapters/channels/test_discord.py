"""Discord: whom it reaches, what its refusals mean, its signatures, its clicks and the answers that it wants at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.approvals.channels.base import ChannelRefused, InvalidSignature
from cortex_plane.approvals.channels.discord import Ping, deferred, parse_interaction, pong, told, updated, verify
from cortex_plane.approvals.messages import Address, Click, Sent
from cortex_plane.clock import SECOND, Instant
from cortex_plane.errors import InvalidInput
from tests.adapters.channels.conftest import Chat
from tests.adapters.channels.discord_fake import CHANNEL_ID, CLOSED_USER_ID, DIRECT_ID, USER_ID, check_message
from tests.adapters.channels.ed25519 import is_signed, public_key_of, sign
from tests.adapters.channels.messages import APPROVED, TOKEN, message

pytestmark = pytest.mark.anyio

SECRET_KEY = bytes(range(32))
PUBLIC_KEY = public_key_of(SECRET_KEY).hex()
BODY = b'{"type":1}'


def interaction(**changes: Any) -> bytes:
    """As https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object says."""
    whole = {
        "id": "846462639134605312",
        "application_id": "845027738276462632",
        "type": 3,
        "token": "interaction-token",
        "version": 1,
        "channel_id": DIRECT_ID,
        "data": {"component_type": 2, "custom_id": f"a:{TOKEN}"},
        "message": {"id": "334385199974967042", "channel_id": DIRECT_ID, "content": "🔒"},
        "user": {"id": USER_ID, "username": "alice"},
    }
    return json.dumps({**whole, **changes}).encode()


async def test_a_person_is_reached_by_direct_message(discord: Chat) -> None:
    sent = await discord.channel().send(message(), discord.address)

    assert sent.where["channel_id"] == DIRECT_ID
    assert [request.path for request in discord.server.requests] == ["/users/@me/channels", f"/channels/{DIRECT_ID}/messages"]


async def test_a_channel_is_reached_as_it_is(discord: Chat) -> None:
    sent = await discord.channel().send(message(), Address(CHANNEL_ID, "channel"))

    assert sent.where["channel_id"] == CHANNEL_ID
    assert len(discord.server.requests) == 1


async def test_what_was_asked_stays_below_the_outcome(discord: Chat) -> None:
    sent = await discord.channel().send(message(), discord.address)
    await discord.channel().edit(sent, APPROVED)

    after = discord.fake.messages[sent.message_id]
    assert after["content"].startswith("✅ Approved by Alice")
    assert "app:1.4.0" in after["embeds"][0]["description"]
    assert after["components"] == []
    assert discord.server.requests[-1].method == "PATCH"


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (Address("404"), "no such user"),
        (Address("404", "channel"), "invite the bot"),
        (Address(CLOSED_USER_ID), "share a server"),
    ],
)
async def test_refusals_say_what_to_do(discord: Chat, address: Address, advice: str) -> None:
    with pytest.raises(ChannelRefused, match=advice):
        await discord.channel().send(message(), address)


@pytest.mark.parametrize("sent", [Sent("1/../2", {"channel_id": "1"}), Sent("1", {"channel_id": "../x"}), Sent("1", {})])
async def test_a_stored_message_that_is_not_discords_is_refused(discord: Chat, sent: Sent) -> None:
    with pytest.raises(ChannelRefused):
        await discord.channel().edit(sent, APPROVED)

    assert discord.server.requests == []


NOW = Instant(1_700_000_000 * SECOND)


# -- signatures ----------------------------------------------------------------------------------


def headers(timestamp: str = "1700000000", body: bytes = BODY) -> dict[str, str]:
    return {"X-Signature-Timestamp": timestamp, "X-Signature-Ed25519": sign(SECRET_KEY, timestamp.encode() + body).hex()}


def test_the_example_of_rfc_8032_is_signed_and_another_message_is_not() -> None:
    secret = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
    public = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
    signature = sign(secret, bytes.fromhex("af82"))

    assert public_key_of(secret) == public
    assert signature.hex().startswith("6291d657deec24024827e69c3abe01a3")
    assert is_signed(public, signature, bytes.fromhex("af82"))
    assert not is_signed(public, signature, bytes.fromhex("af83"))


def test_what_discord_signed_is_genuine() -> None:
    verify(headers(), BODY, NOW, public_key=PUBLIC_KEY, is_signed=is_signed)
    verify({name.lower(): value for name, value in headers().items()}, BODY, NOW, public_key=PUBLIC_KEY, is_signed=is_signed)


@pytest.mark.parametrize(
    "given_headers",
    [
        {},
        {"X-Signature-Timestamp": "1700000000"},
        {**headers(), "X-Signature-Timestamp": "1700000001"},
        {**headers(), "X-Signature-Timestamp": "é"},
        {**headers(), "X-Signature-Ed25519": ""},
        {**headers(), "X-Signature-Ed25519": "zz" * 64},
        {**headers(), "X-Signature-Ed25519": "00" * 64},
        {**headers(), "X-Signature-Ed25519": headers()["X-Signature-Ed25519"][:-2]},
        headers(body=b'{"type":3}'),
    ],
)
def test_whatever_else_is_not(given_headers: dict[str, str]) -> None:
    with pytest.raises(InvalidSignature):
        verify(given_headers, BODY, NOW, public_key=PUBLIC_KEY, is_signed=is_signed)


@pytest.mark.parametrize("seconds", [-301, 301, 86_400 * 365])
def test_what_was_signed_long_ago_or_in_the_future_is_not(seconds: int) -> None:
    verify(headers(), BODY, Instant(NOW + 299 * SECOND), public_key=PUBLIC_KEY, is_signed=is_signed)
    with pytest.raises(InvalidSignature, match="five minutes"):
        verify(headers(), BODY, Instant(NOW + seconds * SECOND), public_key=PUBLIC_KEY, is_signed=is_signed)


def test_our_own_check_agrees_with_the_one_that_is_written_down() -> None:
    verify(headers(), BODY, NOW, public_key=PUBLIC_KEY)
    for wrong in (headers(body=b"{}"), {**headers(), "X-Signature-Timestamp": "1700000001"}):
        with pytest.raises(InvalidSignature):
            verify(wrong, BODY, NOW, public_key=PUBLIC_KEY)
    for key in (public_key_of(bytes(32)).hex(), "ff" * 32, "02" + "00" * 31):
        with pytest.raises(InvalidSignature):
            verify(headers(), BODY, NOW, public_key=key)


def test_another_applications_key_does_not_do() -> None:
    with pytest.raises(InvalidSignature):
        verify(headers(), BODY, NOW, public_key=public_key_of(bytes(32)).hex(), is_signed=is_signed)


@pytest.mark.parametrize("key", ["", "00", PUBLIC_KEY[:-1], PUBLIC_KEY + "00", "x" * 64])
def test_a_key_that_is_none_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        verify(headers(), BODY, NOW, public_key=key, is_signed=lambda *_: True)

    assert refused.value.field == "public_key"


# -- clicks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("letter", "decision"), [("a", "approved"), ("d", "denied")])
def test_a_click_says_who_decided_what_on_which_message(letter: str, decision: Any) -> None:
    click = parse_interaction(interaction(data={"component_type": 2, "custom_id": f"{letter}:{TOKEN}"}))

    assert click == Click(TOKEN, decision, USER_ID, Sent("334385199974967042", {"channel_id": DIRECT_ID}))


def test_in_a_channel_the_person_is_a_member() -> None:
    click = parse_interaction(interaction(user=None, member={"user": {"id": USER_ID}, "roles": []}))

    assert isinstance(click, Click)
    assert click.channel_user_id == USER_ID


def test_a_ping_is_answered_with_a_pong() -> None:
    assert isinstance(parse_interaction(b'{"type": 1}'), Ping)
    assert pong() == {"type": 1}


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"[]",
        b"{",
        interaction(type=2),
        interaction(type="3"),
        interaction(data=None),
        interaction(user=None),
        interaction(data={}),
    ],
)
def test_other_interactions_are_not_clicks(other: bytes) -> None:
    assert parse_interaction(other) is None


@given(st.binary())
def test_no_body_breaks_the_reading(body: bytes) -> None:
    assert parse_interaction(body) is None or isinstance(parse_interaction(body), Click | Ping)


def test_answers_at_once_are_what_discord_takes() -> None:
    """https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-response-object"""
    late, done = told("Already decided by *Bob*. " * 200), updated(APPROVED)

    assert deferred() == {"type": 6}
    assert (late["type"], late["data"].pop("flags")) == (4, 64)
    assert late["data"]["content"].startswith("Already decided by \\*Bob\\*.")
    check_message(late["data"])
    assert done["type"] == 7
    check_message(done["data"])
