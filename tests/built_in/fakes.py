"""Servers on this machine that speak the real wire formats of SMTP, Resend and Microsoft Graph, and forgive nothing."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any
from urllib.parse import parse_qs


@asynccontextmanager
async def served(handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[int]:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await asyncio.sleep(0)


# -- HTTP ----------------------------------------------------------------------------------------


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/json"
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def form(self) -> dict[str, str]:
        assert self.headers["content-type"] == "application/x-www-form-urlencoded"
        return {name: values[0] for name, values in parse_qs(self.body.decode(), strict_parsing=True).items()}


Reply = tuple[int, dict[str, str], Any]


@dataclass
class Api:
    """Answers each request by `answer`, unless a test has put answers in the way."""

    answer: Callable[[Request], Reply]
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    instead: list[Reply] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        request = Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
        self.requests.append(request)
        status, more, document = self.instead.pop(0) if self.instead else self.answer(request)
        body = b"" if document is None else json.dumps(document).encode()
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()


@asynccontextmanager
async def api(answer: Callable[[Request], Reply]) -> AsyncIterator[Api]:
    made = Api(answer)
    async with served(made) as made.port:
        yield made


def resend(request: Request) -> Reply:
    """As https://resend.com/docs/api-reference/emails/send-email says."""
    assert (request.method, request.path) == ("POST", "/emails")
    if request.headers.get("authorization") != "Bearer re_key":
        return 401, {}, {"statusCode": 401, "name": "missing_api_key", "message": "Missing API key"}
    known = {"from", "to", "cc", "bcc", "reply_to", "subject", "text", "html"}
    if set(request.json) - known or not {"from", "to", "subject"} <= set(request.json):
        return 422, {}, {"statusCode": 422, "name": "validation_error", "message": "Unknown or missing field"}
    return 200, {}, {"id": "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}


class Graph:
    """The login of Microsoft and its Graph, on one port. Tokens are good until the test revokes them."""

    def __init__(self) -> None:
        self.logins = 0
        self.good: set[str] = set()

    def __call__(self, request: Request) -> Reply:
        assert request.method == "POST"
        return self._log_in(request) if request.path == "/contoso/oauth2/v2.0/token" else self._send(request)

    def _log_in(self, request: Request) -> Reply:
        expected = {"grant_type": "client_credentials", "client_id": "app", "client_secret": "hush"}
        if request.form != {**expected, "scope": "https://graph.microsoft.com/.default"}:
            return 401, {}, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}
        self.logins += 1
        self.good.add(f"token-{self.logins}")
        return 200, {}, {"token_type": "Bearer", "expires_in": 3599, "access_token": f"token-{self.logins}"}

    def _send(self, request: Request) -> Reply:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.good:
            return 401, {}, {"error": {"code": "InvalidAuthenticationToken", "message": "Access token has expired."}}
        if request.path != "/v1.0/users/bot%40example.com/sendMail":
            return 404, {}, {"error": {"code": "ErrorInvalidUser", "message": "The requested user is invalid."}}
        assert set(request.json) == {"message", "saveToSentItems"}
        return 202, {"request-id": "b0d7ed68"}, None


# -- SMTP ----------------------------------------------------------------------------------------


@dataclass
class Smtp:
    """A server that takes what RFC 5321 allows, in the order that it demands. `replies` answers a line in another way."""

    port: int = 0
    replies: dict[str, str] = field(default_factory=dict)
    envelopes: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    hangs_up: bool = False
    """It takes the e-mail, and goes away before it says so."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(*lines: str) -> None:
            writer.write("".join(f"{line}\r\n" for line in lines).encode("ascii"))

        say(self.replies.get("connect", "220 mail.example.com ESMTP"))
        sender, recipients = "", list[str]()
        while line := (await reader.readline()).decode("ascii").removesuffix("\r\n"):
            special = next((reply for begin, reply in self.replies.items() if line.upper().startswith(begin.upper())), None)
            verb = line.split(" ")[0].upper()
            if special is not None:
                say(special)
            elif verb == "EHLO":
                say("250-mail.example.com", "250-8BITMIME", "250 AUTH PLAIN")
            elif verb == "AUTH":
                self.users.append(base64.b64decode(line.split(" ")[2]).decode())
                say("235 Welcome")
            elif verb == "MAIL" and not sender:
                sender = line.split("<")[1].split(">")[0]
                say("250 OK")
            elif verb == "RCPT" and sender:
                recipients.append(line.split("<")[1].split(">")[0])
                say("250 OK")
            elif verb == "DATA" and recipients:
                say("354 Go ahead")
                data = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n")
                message = message_from_bytes(data, _class=EmailMessage, policy=default)
                self.envelopes.append((sender, recipients, message))
                if self.hangs_up:
                    return
                say("250 Queued")
            elif verb == "QUIT":
                say("221 Bye")
                return
            else:
                say("503 Bad sequence of commands")
            await writer.drain()


@asynccontextmanager
async def smtp() -> AsyncIterator[Smtp]:
    made = Smtp()
    async with served(made) as made.port:
        yield made
