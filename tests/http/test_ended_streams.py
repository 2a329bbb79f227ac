"""An event stream ends when its reader may see it no longer, and after a while in any case."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from httpx import AsyncClient
from starlette.types import ASGIApp

from cortex_plane.http.auth import COOKIE
from cortex_plane.http.streams import CHECK_SECONDS
from cortex_plane.people.login import open_sign_in
from tests.apps import dashboard_of
from tests.http.conftest import Api
from tests.http.test_events import events

pytestmark = pytest.mark.anyio

STREAMS = ["/jobs/{job_id}/events", "/jobs/events"]
FOR_LONG = 120.0


async def ann_s_key(api: Api) -> tuple[AsyncClient, str]:
    await api.plane.access.add_user("ann")
    await api.plane.access.give_role("ann", "viewer", tenant="default")
    key = await api.plane.access.add_key("mine", ["viewer"], tenant="default", user="ann")
    return await api.stranger(Authorization=f"Bearer {key.secret}"), key.key.id


async def revoke(api: Api, key_id: str) -> None:
    await api.plane.access.revoke_key(key_id)


async def disable(api: Api, key_id: str) -> None:
    await api.plane.people.disable("ann")


async def take_the_role(api: Api, key_id: str) -> None:
    await api.plane.access.take_role("ann", "viewer", tenant="default")


class Reading:
    """One request, answered bit by bit: httpx gives an answer of an app in this process only when it has ended."""

    def __init__(
        self, app: ASGIApp, reader: AsyncClient, path: str, on_start: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.status, self.told, self.first = 0, "", asyncio.Event()
        self._on_start, self._gone = on_start, asyncio.Event()
        sent = {**reader.headers, "host": "localhost"}
        headers = [(name.encode(), value.encode()) for name, value in sent.items()]
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "http_version": "1.1",
            "client": ("127.0.0.1", 1),
        }
        scope |= {"path": path, "root_path": "", "query_string": b"", "headers": headers}
        self.ended = asyncio.create_task(self._read(app, scope))

    async def _read(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Any:
        if not self._gone.is_set():
            self._gone.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        return await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._on_start is not None:
                await self._on_start()
        elif message["body"]:
            self.told += message["body"].decode()
            self.first.set()


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("end", [revoke, disable, take_the_role])
async def test_a_stream_ends_within_seconds_when_its_reader_may_see_it_no_longer(
    api: Api, stream: str, end: Callable[[Api, str], Awaitable[None]]
) -> None:
    api.plane.settings = replace(api.plane.settings, stream_seconds=FOR_LONG)
    reader, key_id = await ann_s_key(api)
    address = stream.format(job_id=await api.submit())
    reading = Reading(api.app, reader, f"/api/v1{address}")
    await asyncio.wait_for(reading.first.wait(), FOR_LONG / 4)

    await end(api, key_id)
    await asyncio.wait_for(reading.ended, FOR_LONG / 4)

    assert reading.status == 200
    assert (await reader.get(address)).status_code in (401, 403)


async def sign_out(api: Api, token: str) -> None:
    await api.plane.access.sign_out(token)


@pytest.mark.parametrize("end", [sign_out, disable])
async def test_the_stream_of_a_page_ends_with_the_sign_in_of_its_browser(
    api: Api, end: Callable[[Api, str], Awaitable[None]]
) -> None:
    api.plane.settings = replace(api.plane.settings, stream_seconds=FOR_LONG)
    await ann_s_key(api)
    token = (await open_sign_in(api.plane.store, await api.plane.access.user("ann"))).token
    browser = await api.stranger(Cookie=f"{COOKIE}={token}")
    reading = Reading(dashboard_of(api.plane), browser, "/live")
    await asyncio.wait_for(reading.first.wait(), FOR_LONG / 4)

    await end(api, token)
    await asyncio.wait_for(reading.ended, FOR_LONG / 4)

    assert reading.status == 200


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_key_that_is_revoked_while_its_stream_opens_is_told_nothing(api: Api, stream: str) -> None:
    api.plane.settings = replace(api.plane.settings, stream_seconds=FOR_LONG)
    reader, key_id = await ann_s_key(api)
    address = stream.format(job_id=await api.submit())
    reading = Reading(api.app, reader, f"/api/v1{address}", on_start=lambda: revoke(api, key_id))

    await asyncio.wait_for(reading.ended, FOR_LONG / 4)

    assert (reading.status, reading.told) == (200, "")


async def test_a_stream_goes_on_for_those_who_still_may(api: Api) -> None:
    api.plane.settings = replace(api.plane.settings, stream_seconds=2.5 * CHECK_SECONDS)
    reader, _ = await ann_s_key(api)

    began = monotonic()
    answer = await reader.get(f"/jobs/{await api.submit()}/events")

    assert answer.status_code == 200
    assert monotonic() - began >= 2 * CHECK_SECONDS


async def test_a_stream_that_ended_is_taken_up_where_it_was(api: Api, admin: AsyncClient) -> None:
    api.plane.settings = replace(api.plane.settings, stream_seconds=0.2)
    job_id = await api.submit(word="hi")
    first = events((await admin.get(f"/jobs/{job_id}/events")).text)

    await api.plane.work()
    await api.plane.clock.advance(minutes=1)
    rest = events((await admin.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": first[-1]["id"]})).text)

    assert [one["data"]["status"] for one in first] == ["PENDING"]
    assert [one["event"] for one in rest if one["event"] in ("state", "ended")] == ["state", "state", "ended"]
