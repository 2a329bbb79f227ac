"""Webhooks: signed as Standard Webhooks says, to the endpoint's own secret, and not to ourselves unless that is allowed."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cortex_plane.approvals.channels import WebhookChannel
from cortex_plane.approvals.channels.base import Channel, ChannelBusy, ChannelDown, ChannelRefused
from cortex_plane.approvals.messages import Address, Sent
from cortex_plane.http_client import HttpxClient
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.testing import ManualClock
from cortex_plane.webhooks.model import EndpointId, Target, new_secret
from tests.adapters.channels.messages import APPROVED, TOKEN, message
from tests.webhooks.receiver import HANG, Receiver, answer, receiver

pytestmark = pytest.mark.anyio

SECRET = new_secret(bytes(range(32)))
HOOK = Address("0197a1b2-0000-7000-8000-00000000000a")


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made


def to(inbox: Receiver, *, timeout_seconds: float = 5.0, **changes: Any) -> Channel:
    fields = {"url": inbox.url, "secret": SECRET, "enabled": True, "allow_private": True, **changes}
    target = Target(DEFAULT_TENANT_ID, **fields)

    async def find(endpoint_id: EndpointId) -> Target | None:
        return target if endpoint_id == HOOK.id else None

    return WebhookChannel(HttpxClient(), ManualClock(), find, timeout_seconds)


async def test_a_request_is_signed_and_says_how_to_decide(inbox: Receiver) -> None:
    sent = await to(inbox).send(message(), HOOK)

    [got] = inbox.messages
    assert got.is_signed_with(SECRET)
    assert got.id == sent.message_id == message().key
    assert got.event["type"] == "approval.requested"
    data = got.event["data"]
    assert (data["details"], data["token"], data["page_url"]) == (message().details, TOKEN, message().page_url)
    assert data["approve"] == {"method": "POST", "url": message().approve_url}
    assert data["expires_at"] == "2026-01-06T09:00:00Z"


async def test_a_decision_is_a_second_event_about_the_same_request(inbox: Receiver) -> None:
    sent = await to(inbox).send(message(), HOOK)
    stored = json.dumps({"message_id": sent.message_id, "where": sent.where})
    for _ in range(2):
        await to(inbox).edit(Sent(**json.loads(stored)), APPROVED)

    first, closed, again = inbox.messages
    assert closed.is_signed_with(SECRET)
    assert closed.event["type"] == "approval.closed"
    expected = {"outcome": "approved", "by": "Alice", "reason": None, "at": "2026-01-05T09:00:00Z"}
    assert closed.event["data"] == {**expected, "request_id": message().request_id, "job_id": message().job_id}
    assert first.id != closed.id == again.id
    assert TOKEN not in stored
    assert SECRET not in stored
    assert inbox.url not in stored


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (answer("500 Oops"), ChannelDown, "500"),
        (b"HTTP/1.1 429 Slow\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n", ChannelBusy, "wait 9 s"),
        (answer("400 Bad", f"no {TOKEN} {SECRET}".encode()), ChannelRefused, "400"),
        (answer("410 Gone"), ChannelRefused, "cortex webhooks disable"),
        (answer("302 Found", location="http://127.0.0.1/key"), ChannelRefused, "redirect"),
        (HANG, ChannelDown, "did not answer"),
    ],
)
async def test_what_the_receiver_answers_decides_whether_it_is_tried_again(
    inbox: Receiver, reply: bytes, kind: type[Exception], said: str
) -> None:
    inbox.answers.append(reply)
    with pytest.raises(kind, match=said) as failed:
        await to(inbox, timeout_seconds=0.2 if reply == HANG else 5.0).send(message(), HOOK)

    shown = str(failed.value) + repr(failed.value)
    assert not any(secret in shown for secret in (TOKEN, SECRET, "key"))


async def test_a_private_address_is_refused_unless_it_is_allowed(inbox: Receiver) -> None:
    for url in (inbox.url, inbox.url.replace("127.0.0.1", "localhost")):
        with pytest.raises(ChannelRefused, match="private"):
            await to(inbox, url=url, allow_private=False).send(message(), HOOK)

    assert inbox.messages == []


async def test_an_endpoint_that_is_disabled_or_gone_is_refused_with_advice(inbox: Receiver) -> None:
    with pytest.raises(ChannelRefused, match="cortex webhooks enable"):
        await to(inbox, enabled=False).send(message(), HOOK)
    with pytest.raises(ChannelRefused, match="link it anew"):
        await to(inbox).send(message(), Address("unknown"))

    assert inbox.messages == []


async def test_no_secret_is_logged_or_shown(inbox: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sent = await to(inbox).send(message(), HOOK)
    shown = caplog.text + repr(to(inbox)) + repr(sent)

    assert not any(secret in shown for secret in (TOKEN, SECRET, "key=1"))
