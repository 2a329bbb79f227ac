"""What goes wrong with a service: it fails, hangs, is busy for no time or until a date, or has done it and does not say so.

Each fake stays as strict as it is; the faults stand in front of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from cortex_plane import Plane
from cortex_plane.grants.execution_client import AsgiClient
from tests.adapters.channels.server import HANG_UP, Said, Server, raw, raw_json
from tests.apps import app_of
from tests.built_in.fakes import Request, Smtp
from tests.notifications.office import TOKEN
from tests.webhooks.receiver import HANG_UP as HUNG_UP
from tests.webhooks.receiver import Message, Receiver, answer

HANG_SECONDS = 0.4
BUSY_SECONDS = 20
FAULTS = ("fails", "busy for no time", "busy until a date", "hangs", "does it and hangs up")
DONE = "does it and hangs up"


@dataclass
class Trouble:
    """`rate` is how many of a hundred requests go wrong. `seen` counts what did."""

    chance: random.Random
    rate: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    in_doubt: set[Any] = field(default_factory=set)
    """What was done without an answer: tokens of chat messages, and the `id` of e-mails and webhook messages."""

    def next(self) -> str | None:
        if self.chance.randrange(100) >= self.rate:
            return None
        fault = self.chance.choice(FAULTS)
        self.seen[fault] += 1
        return fault

    @property
    def refused(self) -> int:
        return sum(count for fault, count in self.seen.items() if fault != DONE)

    @property
    def uncertain(self) -> int:
        """Done, and whoever asked does not know."""
        return self.seen[DONE]


def until_a_date() -> dict[str, str]:
    now = datetime.now(UTC)
    return {
        "date": format_datetime(now, usegmt=True),
        "retry-after": format_datetime(now + timedelta(seconds=BUSY_SECONDS), usegmt=True),
    }


async def said(fault: str) -> bytes:
    """The answer of a service over HTTP that has not done anything."""
    match fault:
        case "fails":
            return raw(500, b"oops")
        case "busy for no time":
            return raw_json(429, {"ok": False, "error": "ratelimited", "retry_after": 0, "parameters": {"retry_after": 0}})
        case "busy until a date":
            return raw(429, b"{}", **{name.replace("-", "_"): value for name, value in until_a_date().items()})
        case _:
            await asyncio.sleep(HANG_SECONDS)
            return HANG_UP


class Noted:
    """A chat service that remembers which token each message held when it was sent: edits take it away."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake
        self.tokens: dict[Any, str] = {}

    @property
    def messages(self) -> dict[Any, Any]:
        found: dict[Any, Any] = self._fake.messages
        return found

    def __call__(self, request: Request) -> Said:
        before, answered = set(self.messages), self._fake(request)
        held = TOKEN.search(request.body.decode())
        for key in self.messages.keys() - before:
            assert held is not None
            self.tokens[key] = held.group()
        return answered  # type: ignore[no-any-return]


class Chat(Server):
    """Telegram, Discord or Slack behind it."""

    trouble: Trouble

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        fault = self.trouble.next()
        if fault == DONE:
            noted: Any = self.fake
            before = set(noted.tokens)
            noted(request)
            self.trouble.in_doubt |= {noted.tokens[key] for key in noted.tokens.keys() - before}
            return
        if fault is not None:
            self.instead.append(await said(fault))
        await super()._answer(request, writer)


class Hook(Receiver):
    """`taken` are the messages that it has taken, whatever it answered."""

    trouble: Trouble
    taken: list[Message]

    async def _reply(self, writer: asyncio.StreamWriter, reply: bytes) -> None:
        message = self.messages[-1]
        fault = self.trouble.next()
        match fault:
            case None:
                self.taken.append(message)
            case "does it and hangs up":
                self.taken.append(message)
                self.trouble.in_doubt.add(id(message))
                reply = HUNG_UP
            case "fails":
                reply = answer("500 Oops")
            case "busy for no time":
                reply = answer("429 Busy", b"", **{"retry-after": "0"})
            case "busy until a date":
                reply = answer("429 Busy", b"", **until_a_date())
            case _:
                await asyncio.sleep(HANG_SECONDS)
                reply = HUNG_UP
        await super()._reply(writer, reply)


class Mail(Smtp):
    """A mail server has no 429: when it is busy, it greylists."""

    trouble: Trouble

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self.trouble.next()
        if fault == "hangs":
            await asyncio.sleep(HANG_SECONDS)
            return
        replies: dict[str, str] = {}
        if fault in ("fails", "busy for no time", "busy until a date"):
            replies = {"RCPT": "450 4.2.0 Greylisted", "MAIL": "421 4.3.2 Not now"}
            del replies["MAIL" if fault != "fails" else "RCPT"]
        taken: list[Any] = []
        one = Smtp(replies=replies, envelopes=taken, users=self.users, hangs_up=fault == DONE)
        try:
            await one(reader, writer)
        finally:
            self.envelopes += taken
            self.trouble.in_doubt |= {id(email) for *_, email in taken} if fault == DONE else set()


def with_trouble(service: Any, chance: random.Random) -> Any:
    service.trouble = Trouble(chance)
    return service


@dataclass
class Execution:
    """The execution service, behind a wire that fails: it may also be a proxy that answers in its place."""

    client: AsgiClient
    trouble: Trouble
    port: int = 0
    requests: int = 0
    failed: set[str] = field(default_factory=set)
    """What the requests that went wrong were about: idempotency keys of runs to start, ids of runs."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answered = await self._answer(*await _request(reader))
            if answered != HANG_UP:
                writer.write(answered)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        self.requests += 1
        fault = self.trouble.next()
        if fault is not None:
            self.failed.add(headers.get("idempotency-key") or path.partition("?")[0].split("/")[4])
        if fault == "hangs" and self.requests % 2:
            return raw(404, b"<html>This is a proxy.</html>") if method == "GET" else raw(502, b"<html>This is a proxy.</html>")
        if fault is not None and fault != DONE:
            return await said(fault)
        options: dict[str, Any] = {"timeout_seconds": 20.0, "answer_limit_bytes": 1 << 20, "allow_private": True}
        url = f"http://localhost{path}"
        answered = await (
            self.client.get(url, headers=headers, **options)
            if method == "GET"
            else self.client.post(url, headers=headers, body=body, **options)
        )
        more = {name.replace("-", "_"): value for name, value in answered.headers.items() if name.startswith("idempotency")}
        return HANG_UP if fault == DONE else raw(answered.status, answered.body, content_type="application/json", **more)


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    return method, path, headers, await reader.readexactly(int(headers.get("content-length", "0")))


@asynccontextmanager
async def opened_execution(service: Plane, chance: random.Random) -> AsyncIterator[Execution]:
    """`service` is the plane that executes; workers reach it at `http://127.0.0.1:{port}`."""
    made = Execution(AsgiClient(app_of(service)), Trouble(chance))
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await asyncio.sleep(0)
