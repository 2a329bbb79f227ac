"""Telegram: whom it reaches, what its refusals mean, and its clicks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.approvals.channels.base import ChannelRefused, InvalidSignature
from cortex_plane.approvals.channels.telegram import callback_answer, parse_callback
from cortex_plane.approvals.messages import Address, Click, Sent
from cortex_plane.errors import InvalidInput
from tests.adapters.channels.conftest import Chat
from tests.adapters.channels.messages import APPROVED, TOKEN, message
from tests.adapters.channels.server import raw_json
from tests.adapters.channels.telegram_fake import CHAT_ID

pytestmark = pytest.mark.anyio

SECRET = "hook-secret_1"
QUERY = "4382bfdwdsb323b2d9"


def update(**query: Any) -> dict[str, Any]:
    """As https://core.telegram.org/bots/api#callbackquery says."""
    whole = {
        "id": QUERY,
        "from": {"id": 1111, "is_bot": False, "first_name": "Alice"},
        "message": {"message_id": 7, "date": 0, "chat": {"id": CHAT_ID, "type": "private"}},
        "chat_instance": "-1",
        "data": f"a:{TOKEN}",
    }
    return {"update_id": 10000, "callback_query": {**whole, **query}}


async def test_what_is_stored_is_the_chat_that_telegram_names(telegram: Chat) -> None:
    sent = await telegram.channel().send(message(), telegram.address)

    assert (sent.message_id, sent.where["chat_id"]) == ("1", str(CHAT_ID))


async def test_an_unknown_chat_is_refused_with_advice(telegram: Chat) -> None:
    with pytest.raises(ChannelRefused, match=r"chat not found\. Check the chat's number"):
        await telegram.channel().send(message(), Address("-100123"))


@pytest.mark.parametrize(
    ("status", "description", "parameters", "advice"),
    [
        (403, "Forbidden: bot was blocked by the user", {}, "press Start"),
        (
            400,
            "Bad Request: group chat was upgraded to a supergroup chat",
            {"migrate_to_chat_id": -100200},
            "link the chat -100200",
        ),
        (400, "Bad Request: can't parse entities", {}, "on its page"),
    ],
)
async def test_refusals_say_what_to_do(telegram: Chat, status: int, description: str, parameters: Any, advice: str) -> None:
    document = {"ok": False, "error_code": status, "description": description, "parameters": parameters}
    telegram.server.instead.append(raw_json(status, document))
    with pytest.raises(ChannelRefused, match=advice) as refused:
        await telegram.channel().send(message(), telegram.address)

    assert description in str(refused.value)


@pytest.mark.parametrize("sent", [Sent("x", {"chat_id": "1"}), Sent("1", {}), Sent("1", {"chat_id": "../x"})])
async def test_a_stored_message_that_is_not_telegrams_is_refused(telegram: Chat, sent: Sent) -> None:
    with pytest.raises(ChannelRefused):
        await telegram.channel().edit(sent, APPROVED)

    assert telegram.server.requests == []


# -- clicks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("letter", "decision"), [("a", "approved"), ("d", "denied")])
def test_a_click_says_who_decided_what_on_which_message(letter: str, decision: Any) -> None:
    click = parse_callback(update(data=f"{letter}:{TOKEN}"), SECRET, secret_token=SECRET)

    assert click == Click(TOKEN, decision, "1111", Sent("7", {"chat_id": str(CHAT_ID)}), QUERY)


@pytest.mark.parametrize("header", [None, "", "wrong", SECRET[:-1], f"{SECRET}x", "\udce9"])
def test_an_update_without_the_secret_is_not_believed(header: str | None) -> None:
    with pytest.raises(InvalidSignature) as refused:
        parse_callback(update(), header, secret_token=SECRET)

    assert SECRET not in str(refused.value)


def test_without_a_secret_of_our_own_nothing_is_believed() -> None:
    with pytest.raises(InvalidInput, match="secret_token"):
        parse_callback(update(), "", secret_token="")


@pytest.mark.parametrize(
    "other",
    [
        {"update_id": 1, "message": {"text": "hello"}},
        update(data="settings"),
        update(data=f"a:{TOKEN}x"),
        update(data=None),
        update(**{"from": {}}),
        update(id=None),
        {},
        [],
        None,
        "a",
    ],
)
def test_other_updates_are_not_clicks(other: Any) -> None:
    assert parse_callback(other, SECRET, secret_token=SECRET) is None


def test_a_click_on_a_message_that_telegram_no_longer_shows_is_still_a_click() -> None:
    click = parse_callback(update(message=None), SECRET, secret_token=SECRET)

    assert click is not None
    assert click.message is None


LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_document_breaks_the_reading(document: Any) -> None:
    documents = [
        document,
        {"callback_query": document},
        *(update(**{name: document}) for name in ("id", "from", "message", "data")),
    ]

    for found in (parse_callback(one, SECRET, secret_token=SECRET) for one in documents):
        assert found is None or isinstance(found, Click)


async def test_a_click_is_answered_within_telegrams_limits(telegram: Chat) -> None:
    click = Click(TOKEN, "approved", "1111", None, QUERY)
    await telegram.channel().answer(click, "Already decided by Bob. " * 100)

    assert telegram.fake.answered[QUERY].startswith("Already decided by Bob.")
    assert set(callback_answer(click, "x")) == {"callback_query_id", "text"}
