"""A small HTTP server on this machine, in front of a fake that judges each request, and that can be told to misbehave."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.built_in.fakes import Request

HANG = b"hang"
HANG_UP = b"hang up"

Said = tuple[int, Any]
Fake = Callable[[Request], Said]


def raw(status: int, body: bytes = b"", **headers: str) -> bytes:
    """An answer instead of the fake's own: `raw(429, b"{}", retry_after="3")`."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def raw_json(status: int, document: Any, **headers: str) -> bytes:
    return raw(status, json.dumps(document).encode(), content_type="application/json", **headers)


@dataclass
class Server:
    """`instead` are answers that are given, one after the other, before the fake is asked."""

    fake: Fake
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    instead: deque[bytes] = field(default_factory=deque)
    _open: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.requests[-1].body)
        return document

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            request = await _read(reader)
            self.requests.append(request)
            await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        answer = self.instead.popleft() if self.instead else raw_json(*self.fake(request))
        if answer == HANG:
            await asyncio.Event().wait()
        if answer != HANG_UP:
            writer.write(answer)
            await writer.drain()

    def hang_up(self) -> None:
        for task in self._open:
            task.cancel()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
    method, path, version = head[0].split(" ")
    assert version == "HTTP/1.1"
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(": ") for line in head[1:] if line):
        assert name.lower() not in headers, f"the header {name} came twice"
        headers[name.lower()] = value
    return Request(method, path, headers, await reader.readexactly(int(headers["content-length"])))


@asynccontextmanager
async def served(fake: Fake) -> AsyncIterator[Server]:
    made = Server(fake)
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.hang_up()
        server.close()
        await asyncio.sleep(0)


class Wrong(Exception):
    """What a fake's check found; it becomes the service's own refusal."""


def need(holds: object, what: str) -> None:
    if not holds:
        raise Wrong(what)


def only(document: object, required: set[str], optional: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    """The document, if it is an object with these fields and no others."""
    need(isinstance(document, dict), f"not an object: {document!r:.80}")
    assert isinstance(document, dict)
    need(required <= set(document), f"missing {sorted(required - set(document))}")
    need(set(document) <= required | optional, f"unknown {sorted(set(document) - required - optional)}")
    return document


def text(value: object, shortest: int, longest: int, what: str) -> str:
    """Counted as the strictest service would: in UTF-16."""
    need(isinstance(value, str), f"{what} is not text")
    assert isinstance(value, str)
    size = len(value.encode("utf-16-le")) // 2
    need(shortest <= size <= longest, f"{what} has {size} characters")
    return value
