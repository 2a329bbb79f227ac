"""Slack: whom it reaches, what its refusals mean, its signatures and its clicks."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.approvals.channels.base import ChannelBusy, ChannelDown, ChannelRefused, InvalidSignature
from cortex_plane.approvals.channels.slack import ACKNOWLEDGED, parse_action, verify
from cortex_plane.approvals.messages import Address, Click, Sent
from cortex_plane.clock import SECOND, Instant, instant
from cortex_plane.errors import InvalidInput
from tests.adapters.channels.conftest import Chat
from tests.adapters.channels.messages import TOKEN, message
from tests.adapters.channels.server import raw_json
from tests.adapters.channels.slack_fake import CHANNEL_ID, DIRECT_ID, USER_ID

pytestmark = pytest.mark.anyio

# The example of https://docs.slack.dev/authentication/verifying-requests-from-slack
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SIGNED_AT = 1531420618
BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."
    b"803a0bc887a14d10d2c447fce8b6703c"
)
SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
HEADERS = {"X-Slack-Request-Timestamp": str(SIGNED_AT), "X-Slack-Signature": SIGNATURE}
NOW = Instant(SIGNED_AT * SECOND)


def payload(**changes: Any) -> bytes:
    """As https://docs.slack.dev/reference/interaction-payloads/block_actions-payload says."""
    whole = {
        "type": "block_actions",
        "user": {"id": USER_ID, "username": "alice", "team_id": "T1"},
        "container": {"type": "message", "message_ts": "1405895017.000001", "channel_id": DIRECT_ID},
        "channel": {"id": DIRECT_ID, "name": "directmessage"},
        "response_url": "https://hooks.slack.com/actions/T1/2/3",
        "actions": [{"type": "button", "action_id": "cortex_approve", "value": f"a:{TOKEN}", "action_ts": "1.2"}],
    }
    return urlencode({"payload": json.dumps({**whole, **changes})}).encode()


async def test_a_person_is_reached_in_their_direct_messages_and_edited_there(slack: Chat) -> None:
    sent = await slack.channel().send(message(), slack.address)

    assert sent.where["channel"] == DIRECT_ID


async def test_a_channel_is_reached_too(slack: Chat) -> None:
    sent = await slack.channel().send(message(), Address(CHANNEL_ID, "channel"))

    assert sent.where["channel"] == CHANNEL_ID


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("channel_not_found", "invite the app"),
        ("not_in_channel", "Invite the app"),
        ("token_revoked", "xoxb-"),
        ("missing_scope", "chat:write"),
        ("invalid_blocks", "on its page"),
        ("something_new", "on its page"),
    ],
)
async def test_refusals_say_what_to_do(slack: Chat, error: str, advice: str) -> None:
    slack.server.instead.append(raw_json(200, {"ok": False, "error": error}))
    with pytest.raises(ChannelRefused, match=advice) as refused:
        await slack.channel().send(message(), slack.address)

    assert error in str(refused.value)


@pytest.mark.parametrize(
    ("error", "kind"), [("internal_error", ChannelDown), ("fatal_error", ChannelDown), ("ratelimited", ChannelBusy)]
)
async def test_errors_that_pass_are_tried_again(slack: Chat, error: str, kind: type[Exception]) -> None:
    slack.server.instead.append(raw_json(200, {"ok": False, "error": error}))
    with pytest.raises(kind):
        await slack.channel().send(message(), slack.address)


# -- signatures ----------------------------------------------------------------------------------


def test_the_example_of_slack_is_genuine() -> None:
    verify(HEADERS, BODY, NOW, signing_secret=SECRET)
    verify({name.lower(): value for name, value in HEADERS.items()}, BODY, NOW, signing_secret=SECRET)


@pytest.mark.parametrize(
    ("headers", "body", "secret"),
    [
        (HEADERS, BODY + b"&", SECRET),
        (HEADERS, BODY, SECRET[:-1]),
        ({**HEADERS, "X-Slack-Signature": SIGNATURE[:-1] + "4"}, BODY, SECRET),
        ({**HEADERS, "X-Slack-Signature": SIGNATURE[3:]}, BODY, SECRET),
        ({**HEADERS, "X-Slack-Signature": ""}, BODY, SECRET),
        ({**HEADERS, "X-Slack-Signature": "é"}, BODY, SECRET),
        ({**HEADERS, "X-Slack-Request-Timestamp": str(SIGNED_AT + 1)}, BODY, SECRET),
        ({"X-Slack-Signature": SIGNATURE}, BODY, SECRET),
        ({}, BODY, SECRET),
    ],
)
def test_whatever_else_is_not(headers: dict[str, str], body: bytes, secret: str) -> None:
    with pytest.raises(InvalidSignature, match="not signed") as refused:
        verify(headers, body, NOW, signing_secret=secret)

    assert secret not in str(refused.value)


@pytest.mark.parametrize(("seconds", "believed"), [(300, True), (-300, True), (301, False), (-301, False), (86_400, False)])
def test_a_request_is_believed_for_five_minutes(seconds: int, believed: bool) -> None:
    now = Instant(NOW + seconds * SECOND)
    if believed:
        verify(HEADERS, BODY, now, signing_secret=SECRET)
    else:
        with pytest.raises(InvalidSignature, match="five minutes"):
            verify(HEADERS, BODY, now, signing_secret=SECRET)


@pytest.mark.parametrize("timestamp", ["", "soon", "-1531420618", "1e9", " 1531420618", "1" * 5000, "١٥٣١٤٢٠٦١٨"])
def test_a_time_that_is_none_is_not_believed_even_if_it_is_signed(timestamp: str) -> None:
    signed = "v0=" + hmac.new(SECRET.encode(), f"v0:{timestamp}:x".encode(), hashlib.sha256).hexdigest()
    with pytest.raises(InvalidSignature):
        verify({"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": signed}, b"x", NOW, signing_secret=SECRET)


def test_without_a_secret_of_our_own_nothing_is_believed() -> None:
    signed = "v0=" + hmac.new(b"", f"v0:{SIGNED_AT}:x".encode(), hashlib.sha256).hexdigest()
    with pytest.raises(InvalidInput, match="signing_secret"):
        verify({**HEADERS, "X-Slack-Signature": signed}, b"x", NOW, signing_secret="")


def test_the_clock_of_the_plane_is_the_one_that_counts() -> None:
    verify(HEADERS, BODY, instant(datetime.fromtimestamp(SIGNED_AT, UTC)), signing_secret=SECRET)


# -- clicks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("letter", "decision"), [("a", "approved"), ("d", "denied")])
def test_a_click_says_who_decided_what_on_which_message(letter: str, decision: Any) -> None:
    click = parse_action(payload(actions=[{"type": "button", "value": f"{letter}:{TOKEN}"}]))

    where = Sent("1405895017.000001", {"channel": DIRECT_ID})
    assert click == Click(TOKEN, decision, USER_ID, where, "https://hooks.slack.com/actions/T1/2/3")
    assert ACKNOWLEDGED == b""


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"payload=",
        b"payload=%7B",
        b"payload=[]",
        b"\xff",
        b"&".join([b"a=1"] * 11),
        payload(type="view_submission"),
        payload(actions=[]),
        payload(actions=None),
        payload(actions=[{"type": "button", "action_id": "cortex_open"}]),
        payload(actions=[{"type": "button", "value": "a:else"}]),
        payload(user={}),
    ],
)
def test_other_requests_are_not_clicks(other: bytes) -> None:
    assert parse_action(other) is None


@given(st.binary())
def test_no_body_breaks_the_reading(body: bytes) -> None:
    for found in (parse_action(body), parse_action(b"payload=" + body)):
        assert found is None or isinstance(found, Click)


async def test_whoever_clicks_late_is_told_and_nobody_else(slack: Chat) -> None:
    click = Click(TOKEN, "approved", USER_ID, None, f"{slack.server.url}/actions/T1/2/3")
    await slack.channel().tell(click, "Already decided by <Bob>.")

    assert slack.fake.told == ["Already decided by &lt;Bob&gt;."]
    assert "authorization" not in slack.server.requests[0].headers


async def test_a_click_that_cannot_be_answered_says_so_without_its_address(slack: Chat) -> None:
    secret = f"{slack.server.url}/actions/T1/2/gone"
    for answer_to in (secret, ""):
        slack.server.instead.append(raw_json(404, {"ok": False, "error": secret}))
        with pytest.raises(ChannelRefused) as refused:
            await slack.channel().tell(Click(TOKEN, "approved", USER_ID, None, answer_to), "x")

        assert "/actions/" not in str(refused.value)
