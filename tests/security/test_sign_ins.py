"""Signing in costs everybody else nothing: neither memory, nor their own way in."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
from argon2 import PasswordHasher
from httpx import ASGITransport, AsyncClient

from cortex_plane.errors import InvalidInput
from cortex_plane.http.app import create_app
from cortex_plane.http_client import client_address, network_of, networks
from cortex_plane.people import login as sign_in
from cortex_plane.people.login import AT_A_TIME, MOST_TRIES_FOR_A_NAME, MOST_TRIES_FROM_AN_ADDRESS, MOST_WAITING, PasswordThreads
from cortex_plane.people.passwords import Argon2Passwords
from cortex_plane.people.roles import TooManySignIns
from cortex_plane.settings import load_settings
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"
PROXY = "10.1.2.3"


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Argon2Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr("cortex_plane.people.keys.passwords", lambda: quick)


async def _people(api: Api, *names: str) -> None:
    for name in names:
        await api.plane.access.add_user(name)
        await api.plane.access.set_password(name, PASSWORD)
        await api.plane.access.give_role(name, "viewer")


def _from(api: Api, address: str, proxies: str = "") -> AsyncClient:
    app = create_app(api.plane, replace(api.plane.settings, trusted_proxies=proxies))
    transport = ASGITransport(app, client=(address, 4711))
    return AsyncClient(transport=transport, base_url="http://localhost/api/v1")


async def _status(client: AsyncClient, name: str, password: str = PASSWORD, **headers: str) -> int:
    return (await client.post("/session", json={"name": name, "password": password}, headers=headers)).status_code


# -- memory --------------------------------------------------------------------------------------


class SlowPasswords(Argon2Passwords):
    """Waits until it is let go, and counts how many wait with it."""

    def __init__(self) -> None:
        super().__init__(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        self.now = self.most = 0
        self.go, self.lock, self.full = threading.Event(), threading.Lock(), threading.Event()

    def matches(self, password_hash: str, password: str) -> bool:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == AT_A_TIME:
                self.full.set()
        self.go.wait(30)
        with self.lock:
            self.now -= 1
        return super().matches(password_hash, password)


async def test_two_passwords_are_hashed_at_a_time_and_a_crowd_is_sent_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await _people(api, "ada")
    slow = SlowPasswords()
    monkeypatch.setattr("cortex_plane.people.keys.passwords", lambda: slow)
    monkeypatch.setattr(sign_in, "password_threads", PasswordThreads())
    monkeypatch.setattr(sign_in, "MOST_TRIES_FOR_A_NAME", 1_000)
    monkeypatch.setattr(sign_in, "MOST_TRIES_FROM_AN_ADDRESS", 1_000)
    room = AT_A_TIME + MOST_WAITING
    client = await api.stranger()

    asked = [asyncio.create_task(client.post("/session", json={"name": "ada", "password": PASSWORD})) for _ in range(45)]
    refused = []
    for answer in asyncio.as_completed(asked):
        refused.append(await answer)
        if len(refused) == 45 - room:
            break
    await asyncio.to_thread(slow.full.wait, 10)
    slow.go.set()
    statuses = [(await one).status_code for one in asked]

    assert {one.status_code for one in refused} == {429}
    assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
    assert slow.most == AT_A_TIME
    assert sorted(statuses) == [200] * room + [429] * (45 - room)


async def test_work_that_nobody_waits_for_still_counts() -> None:
    threads, go = PasswordThreads(at_a_time=1, most_waiting=0), threading.Event()
    left = asyncio.create_task(threads.run(go.wait, 10))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)

    with pytest.raises(TooManySignIns):
        await threads.run(int)
    go.set()
    while True:
        try:
            assert await threads.run(int) == 0
            break
        except TooManySignIns:
            await asyncio.sleep(0.001)


# -- tries ---------------------------------------------------------------------------------------


async def test_wrong_passwords_lock_a_name_only_where_they_came_from(api: Api) -> None:
    await _people(api, "ada")
    async with _from(api, "192.0.2.1") as stranger, _from(api, "192.0.2.2") as ada:
        wrong = [await _status(stranger, "ada", "guess") for _ in range(MOST_TRIES_FOR_A_NAME)]

        assert set(wrong) == {401}
        assert await _status(stranger, "ada") == 429
        assert await _status(ada, "ada") == 200


async def test_people_who_share_an_address_sign_in_as_often_as_they_like(api: Api) -> None:
    await _people(api, "ada")
    async with _from(api, "192.0.2.1") as client:
        assert {await _status(client, "ada") for _ in range(MOST_TRIES_FROM_AN_ADDRESS + 5)} == {200}


async def test_somebody_who_guesses_locks_no_others_out_who_share_the_address(api: Api) -> None:
    await _people(api, "ada")
    async with _from(api, "192.0.2.1") as client:
        guesses = [await _status(client, f"name{number}", "guess") for number in range(MOST_TRIES_FROM_AN_ADDRESS + 1)]
        more = [await _status(client, "victim", "guess") for _ in range(MOST_TRIES_FOR_A_NAME)]

        assert set(guesses) == {401}
        assert (more[0], more[-1]) == (401, 429)
        assert await _status(client, "ada") == 200


async def test_many_addresses_of_one_network_count_as_one(api: Api) -> None:
    await _people(api, "ada")
    statuses = []
    for number in range(MOST_TRIES_FOR_A_NAME + 1):
        async with _from(api, f"2001:db8:1:2::{number:x}") as client:
            statuses.append(await _status(client, "ada", "guess"))

    assert statuses[-1] == 429
    assert network_of("2001:db8:1:2:3::4") == "2001:db8:1:2::/64"
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"


# -- proxies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", PROXY])
async def test_a_caller_that_is_no_trusted_proxy_cannot_choose_its_address(api: Api, peer: str) -> None:
    await _people(api, "ada")
    async with _from(api, peer) as client:
        tries = [
            await _status(client, "ada", "guess", **{"X-Forwarded-For": f"192.0.2.{number}"})
            for number in range(MOST_TRIES_FOR_A_NAME + 1)
        ]

    assert tries[-1] == 429


async def test_behind_a_trusted_proxy_each_client_counts_by_itself(api: Api) -> None:
    await _people(api, "ada")
    async with _from(api, PROXY, "10.0.0.0/8") as client:
        for _ in range(MOST_TRIES_FOR_A_NAME + 1):
            await _status(client, "ada", "guess", **{"X-Forwarded-For": "192.0.2.1"})

        assert await _status(client, "ada", **{"X-Forwarded-For": "192.0.2.1"}) == 429
        assert await _status(client, "ada", **{"X-Forwarded-For": "203.0.113.9, 192.0.2.1"}) == 429  # What a client adds itself.
        assert await _status(client, "ada", **{"X-Forwarded-For": "192.0.2.2"}) == 200
    entry = (await api.plane.store.audit.list((await api.plane.access.user("ada")).id))[-1]
    assert "192.0.2.2" in repr(entry)


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("", PROXY),
        ("192.0.2.1", "192.0.2.1"),
        ("6.6.6.6, 192.0.2.1", "192.0.2.1"),
        ("192.0.2.1, 10.9.9.9", "192.0.2.1"),
        ("unknown", PROXY),
        ("192.0.2.1, nonsense", PROXY),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_address_is_the_last_that_no_trusted_proxy_has(forwarded: str, address: str) -> None:
    assert client_address(PROXY, forwarded, networks("10.0.0.0/8", "x")) == address


def test_a_wrong_list_of_proxies_is_refused() -> None:
    with pytest.raises(InvalidInput, match="trusted_proxies"):
        load_settings({"trusted_proxies": "10.0.0.1/8"}, {})


async def test_metrics_need_a_token_where_a_proxy_may_stand_between(api: Api) -> None:
    async def read(headers: dict[str, str], **settings: Any) -> int:
        app = create_app(api.plane, api.plane.settings)
        before = api.plane.settings
        api.plane.settings = replace(before, **settings)
        try:
            async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client:
                return (await client.get("/metrics", headers=headers)).status_code
        finally:
            api.plane.settings = before

    assert await read({}) == 200
    for header in ("Via", "X-Forwarded-Proto", "X-Forwarded-For", "CF-Connecting-IP"):
        assert await read({header: "1.1 front"}) == 403
    assert await read({}, allowed_hosts="cortex.example.com") == 403
    assert await read({}, secure_cookies=True) == 403
    assert await read({}, trusted_proxies="10.0.0.0/8") == 403
    assert await read({"Authorization": "Bearer secret-token"}, secure_cookies=True, metrics_token="secret-token") == 200
