"""The address that was checked is the one that is used, under the name that was asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cortex_plane.http_client import HttpResponse, HttpxClient, NoResponse, PrivateAddress
from tests.webhooks.receiver import Receiver, answer, receiver

pytestmark = pytest.mark.anyio

HOST = "hooks.example.com"
SIGNED = {
    "content-type": "application/json",
    "user-agent": "cortex-plane",
    "webhook-id": "evt_1",
    "webhook-timestamp": "1",
    "webhook-signature": "v1,x",
}
BODY = b'{"type": "t", "timestamp": "now", "data": {}}'


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        made.host = HOST
        yield made


class Names:
    """Stands in for the look-up of names; every question is remembered."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), list[str]()

    async def __call__(self, host: str, port: int, **options: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        addresses = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]


def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> Names:
    made = Names(*answers)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", made)
    return made


async def post(port: int, **options: Any) -> HttpResponse:
    asked = {"timeout_seconds": 5.0, "answer_limit_bytes": 1000, "allow_private": True, **options}
    return await HttpxClient().post(f"http://{HOST}:{port}/in", headers=SIGNED, body=BODY, **asked)


async def test_a_name_is_looked_up_once_and_kept_in_the_request(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look-up, which could say something else, never happens: 203.0.113.9 is not asked."""
    looked_up = names(monkeypatch, ["127.0.0.1"], ["203.0.113.9"])
    got = await post(inbox.port)

    assert got.status == 204
    assert looked_up.asked == [HOST]
    assert inbox.messages[0].headers["host"] == f"{HOST}:{inbox.port}"


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["93.184.216.34", "::1"]])
async def test_one_private_address_among_public_ones_is_enough_to_refuse(
    inbox: Receiver, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    names(monkeypatch, addresses)
    with pytest.raises(PrivateAddress, match=rf"{HOST} resolves to .*, which is not a public address"):
        await post(inbox.port, allow_private=False)

    assert inbox.messages == []


async def test_an_address_that_cannot_be_reached_gives_way_to_the_next(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, ["127.0.0.2", "127.0.0.1"])  # Only the second has a server.

    assert (await post(inbox.port)).status == 204


async def test_no_address_at_all_is_no_answer(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, [])
    with pytest.raises(NoResponse, match="it has no address"):
        await post(inbox.port)


async def test_proxies_of_the_environment_are_not_asked(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would look up the name themselves."""
    names(monkeypatch, ["127.0.0.1"])
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    assert (await post(inbox.port)).status == 204


async def test_an_answer_is_cut_at_the_limit(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, ["127.0.0.1"])
    inbox.answers.append(answer("200 OK", b"x" * 100_000, **{"X-Mood": "good"}))
    got = await post(inbox.port, answer_limit_bytes=70)

    assert (got.body, got.headers["x-mood"]) == (b"x" * 70, "good")


async def test_the_certificate_must_name_the_host_that_was_asked_for() -> None:
    """No certificate is at hand in a test, but the name that the handshake asks for is, in its first bytes."""
    seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options: dict[str, Any] = {"timeout_seconds": 5.0, "answer_limit_bytes": 10, "allow_private": True}
    with pytest.raises(NoResponse):
        await HttpxClient().post(f"https://localhost:{port}/", headers=SIGNED, body=BODY, **options)
    server.close()

    assert b"localhost" in await seen
