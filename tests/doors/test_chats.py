"""What chat services send: believed only with their sign, decided only for the one whom the message was for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cortex_plane import JobStatus
from cortex_plane.approvals import http_channels as channel_callbacks
from cortex_plane.approvals.messages import button_data
from cortex_plane.approvals.service import decide_by_click
from cortex_plane.errors import Unavailable
from tests.doors.house import CHATS, DOORS, TELEGRAM_SECRET, House, Person, Try, signed_for_discord, signed_for_slack

pytestmark = pytest.mark.anyio

OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


async def trying(house: House, person: Person, channel: str, **gate: Any) -> tuple[Any, Try]:
    job, request = await house.asked(person, **gate)
    return job, await house.trying(request, person, channel=channel)


@pytest.mark.parametrize("chat", CHATS)
async def test_a_button_decides_and_the_answer_is_in_the_service_s_own_words(house: House, alice: Person, chat: str) -> None:
    job, one = await trying(house, alice, chat)

    assert await DOORS[chat](house, one) == "decided"

    assert await job.status() is JobStatus.RUNNING
    [vote] = await house.plane.approvals.votes(one.request_id)
    assert (vote.by, vote.door) == ("Alice", chat)


async def test_telegram_without_its_secret_is_not_believed(house: House, alice: Person) -> None:
    job, one = await trying(house, alice, "telegram")
    update = {"callback_query": {"id": "1", "from": {"id": 1}, "data": button_data("approved", one.token)}}

    for headers in ({}, {"X-Telegram-Bot-Api-Secret-Token": "wrong"}, {"X-Telegram-Bot-Api-Secret-Token": ""}):
        answer = await house.client.post("/api/channels/telegram", json=update, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (401, "/problems/invalid-signature")

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_discord_is_greeted_back_and_forgeries_are_noticed(house: House) -> None:
    ping = signed_for_discord(house, {"type": 1})
    forged = signed_for_discord(house, {"type": 1}, OTHER_KEY)
    changed = {**ping, "content": b'{"type": 1 }'}

    assert (await house.client.post("/api/channels/discord", **ping)).json() == {"type": 1}
    for request in (forged, changed, {"content": b'{"type": 1}'}):
        assert (await house.client.post("/api/channels/discord", **request)).status_code == 401


async def test_slack_is_believed_with_its_signature_and_for_five_minutes(house: House, alice: Person) -> None:
    job, one = await trying(house, alice, "slack")
    click = {
        "type": "block_actions",
        "user": {"id": alice.chats["slack"]},
        "actions": [{"value": button_data("approved", one.token)}],
    }
    forged, old = signed_for_slack(house, click, "another"), signed_for_slack(house, click)
    await house.plane.clock.advance(seconds=301)

    for request in (forged, old):
        assert (await house.client.post("/api/channels/slack", **request)).status_code == 401

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_what_is_not_a_click_is_acknowledged(house: House) -> None:
    headers = {"X-Telegram-Bot-Api-Secret-Token": TELEGRAM_SECRET}
    message = await house.client.post("/api/channels/telegram", json={"update_id": 1, "message": {}}, headers=headers)
    nonsense = await house.client.post("/api/channels/telegram", content=b"\xff", headers=headers)
    command = await house.client.post("/api/channels/discord", **signed_for_discord(house, {"type": 2}))
    view = await house.client.post("/api/channels/slack", **signed_for_slack(house, {"type": "view_closed"}))

    assert [one.status_code for one in (message, nonsense, command, view)] == [200] * 4
    assert (message.json(), nonsense.json(), view.content) == ({}, {}, b"")
    assert command.json()["data"]["flags"] == 64


@pytest.mark.parametrize("chat", CHATS)
async def test_a_forwarded_button_does_not_decide_for_another(house: House, alice: Person, bob: Person, chat: str) -> None:
    """Not even for somebody who might decide by a message of their own."""
    job, request = await house.asked(alice, bob)
    token = (await house.token(request, alice, chat)).plaintext
    stranger = Person(alice.user, alice.key, alice.cookie, {"telegram": "999", "discord": "999", "slack": "U999"})

    assert await DOORS[chat](house, Try(request.id, bob, token)) == "not allowed"
    assert await DOORS[chat](house, Try(request.id, stranger, token)) == "not allowed"

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


@pytest.mark.parametrize("chat", CHATS)
async def test_a_store_that_is_away_is_told_in_time(
    house: House, alice: Person, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, one = await trying(house, alice, chat)

    async def away(*_: Any) -> Any:
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(channel_callbacks, "decide_by_click", away)

    assert await DOORS[chat](house, one) == "nothing"


@pytest.mark.parametrize("chat", CHATS)
async def test_a_decision_that_takes_longer_than_a_service_waits_is_finished_all_the_same(
    house: House, alice: Person, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, one = await trying(house, alice, chat)
    go_on = asyncio.Event()

    async def slow(*values: Any) -> Any:
        await go_on.wait()
        return await decide_by_click(*values)

    monkeypatch.setattr(channel_callbacks, "decide_by_click", slow)
    monkeypatch.setattr(channel_callbacks, "PATIENCE_SECONDS", 0.05)

    assert await DOORS[chat](house, one) == "late"
    go_on.set()
    await asyncio.gather(*channel_callbacks._in_progress)

    assert await job.status() is JobStatus.RUNNING


async def test_a_service_that_is_not_set_up_is_not_there(plane: Any) -> None:
    from httpx import ASGITransport, AsyncClient

    from cortex_plane.http.app import create_app

    async with AsyncClient(transport=ASGITransport(create_app(plane)), base_url="http://localhost") as client:
        for chat in CHATS:
            answer = await client.post(f"/api/channels/{chat}", json={})
            assert answer.status_code == 404
            assert "CORTEX_" in answer.json()["detail"]
