"""A receiver of webhooks on this machine that takes nothing on trust: every header and every signature is checked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

HANG = b"hang"
HANG_UP = b"hang up"
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Message:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    def is_signed_with(self, secret: str) -> bool:
        """Written from the text of Standard Webhooks, without a line of ours."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return hmac.compare_digest(self.headers["webhook-signature"], expected)


@dataclass
class Receiver:
    """`answers` are given one after the other; then everything is taken."""

    port: int = 0
    host: str = "127.0.0.1"
    answers: deque[bytes] = field(default_factory=deque)
    messages: list[Message] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    _open: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks?key=1"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            message = await self._read(reader)
            self.messages.append(message)
            self.problems += problems_of(message, f"{self.host}:{self.port}")
            await self._reply(writer, self.answers.popleft() if self.answers else TAKEN)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # A sender that died sends half of it.
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Message:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        method, path, version = head[0].split(" ")
        headers: dict[str, str] = {}
        for line in filter(None, head[1:]):
            name, _, value = line.partition(": ")
            if name.lower() in headers:
                self.problems.append(f"the header {name} came twice")
            headers[name.lower()] = value
        if (method, version) != ("POST", "HTTP/1.1"):
            self.problems.append(f"{method} {version}")
        return Message(path, headers, await reader.readexactly(int(headers["content-length"])))

    async def _reply(self, writer: asyncio.StreamWriter, reply: bytes) -> None:
        if reply == HANG:
            await asyncio.Event().wait()
        if reply == HANG_UP:
            return
        for start in range(0, len(reply), 8192):
            writer.write(reply[start : start + 8192])
            await writer.drain()
            self.sent_bytes += 8192

    def hang_up(self) -> None:
        for task in self._open:
            task.cancel()


def problems_of(message: Message, host: str) -> list[str]:
    expected = {
        "host": host,
        "content-type": "application/json",
        "user-agent": "cortex-plane",
    }
    wrong = [f"{name} is {message.headers.get(name)}" for name, value in expected.items() if message.headers.get(name) != value]
    wrong += [
        f"{name} is missing" for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if name not in message.headers
    ]
    if set(message.event) != {"type", "timestamp", "data"}:
        wrong.append(f"the body has {sorted(message.event)}")
    return wrong


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.hang_up()
        server.close()
        await asyncio.sleep(0)
    assert made.problems == []
