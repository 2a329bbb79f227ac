"""A connection costs little and not for ever: half-sent requests end, and nobody takes all event streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import Any

import pytest
from uvicorn import Config, Server

from cortex_plane.cli.serve import listen
from cortex_plane.http.app import create_app
from cortex_plane.http.middleware import patient_for
from cortex_plane.http.streams import EventStream, OpenStreams
from cortex_plane.people.roles import TooManyStreams
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _serving(app: Any, header_seconds: float = 30.0) -> AsyncIterator[int]:
    with closing(listen("127.0.0.1", 0, "")) as listening:
        config = Config(app, http=patient_for(header_seconds), proxy_headers=False, log_config=None, lifespan="off")
        server = Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await task


async def _all_that_comes(port: int, *pieces: bytes, after: float = 0.0) -> bytes:
    """What the server says until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(after)
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "pieces",
    [(), (b"GET /hea",), (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ",)],
    ids=["nothing", "half a line", "half a head"],
)
async def test_half_a_head_ends(api: Api, pieces: tuple[bytes, ...]) -> None:
    async with _serving(api.app, header_seconds=0.2) as port:
        assert await _all_that_comes(port, *pieces) == b""


async def test_a_head_that_comes_drop_by_drop_ends(api: Api) -> None:
    drops = [b"GET /healthz HTTP/1.1\r\n", *[b"X-A: b\r\n"] * 200]
    async with _serving(api.app, header_seconds=0.3) as port:
        assert await _all_that_comes(port, *drops, after=0.01) == b""


async def test_the_second_head_of_a_connection_has_a_limit_too(api: Api) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with _serving(api.app, header_seconds=0.3) as port:
        said = await _all_that_comes(port, whole, b"GET /hea", after=0.05)

    assert said.startswith(b"HTTP/1.1 200")
    assert said.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("part", [b"", b'{"name": "ada"'], ids=["nothing", "half"])
async def test_half_a_body_is_answered_and_the_connection_closed(api: Api, part: bytes) -> None:
    app = create_app(api.plane, replace(api.plane.settings, http_body_timeout_seconds=0.2))
    head = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    async with _serving(app) as port:
        said = await _all_that_comes(port, head + part)

    assert said.startswith(b"HTTP/1.1 408")
    assert b"body-too-slow" in said


async def test_an_answer_may_take_longer_than_the_request(api: Api) -> None:
    """A stream stays open when its request has been read, however short the limits are."""
    app = create_app(api.plane, replace(api.plane.settings, http_body_timeout_seconds=0.05))
    key = (await api.plane.access.add_key("k", ["viewer"])).secret
    job_id = await api.submit()
    head = f"GET /api/v1/jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    async with _serving(app, header_seconds=0.05) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        said = b""
        async with asyncio.timeout(20):
            while b'"PENDING"' not in said:
                said += await reader.read(1_000)
        await asyncio.sleep(0.2)

        assert not reader.at_eof()
        writer.close()


# -- streams -------------------------------------------------------------------------------------


def test_one_caller_has_few_streams_and_leaves_room_for_others() -> None:
    streams = OpenStreams(most=5, most_of_one=3)
    leave = [streams.admit("user:ada") for _ in range(3)]

    with pytest.raises(TooManyStreams, match="of yours"):
        streams.admit("user:ada")
    streams.admit("user:bob")
    streams.admit("user:eve")
    with pytest.raises(TooManyStreams, match="of this server"):
        streams.admit("user:zoe")
    leave[0]()
    streams.admit("user:ada")


@pytest.mark.parametrize("path", ["/jobs/events", "/jobs/{job}/events"])
async def test_streams_of_lists_and_of_jobs_are_counted_together(api: Api, path: str) -> None:
    viewer, other = await api.client("viewer"), await api.client("viewer")
    job = await api.submit()
    name = (await viewer.get("/me")).json()["name"]
    streams: OpenStreams = api.app.state.streams
    leave = [streams.admit(name) for _ in range(api.plane.settings.http_streams_per_caller)]

    answer = await viewer.get(path.format(job=job))

    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/too-many-streams")
    assert int(answer.headers["retry-after"]) >= 1
    assert (await other.get("/jobs/events")).status_code == 200
    leave.pop()()
    assert (await viewer.get("/jobs/events")).status_code == 200


async def test_a_stream_that_nobody_reads_gives_its_place_back() -> None:
    left: list[bool] = []

    async def events() -> AsyncIterator[str]:
        yield "never read"

    async def send(_message: Any) -> None:
        raise OSError("gone")

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(BaseException):  # noqa: B017, PT011 - Whatever the framework makes of it.
        await EventStream(events(), lambda: left.append(True))({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    assert left == [True]
