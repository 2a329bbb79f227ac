"""Middleware: request id, Host and size checks, timeouts, security headers, access log.

How long a connection may take to send the head of a request. Uvicorn has no such limit: half a request stayed for ever.

How long the body may take is counted in `middleware.py`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import h11
import structlog
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cortex_plane.http.problems import COOKIES_TOO_LARGE, MEDIA_TYPE, TOO_LARGE, TOO_SLOW, WRONG_HOST, Kind, problem
from cortex_plane.ids import NewId
from cortex_plane.metrics.service import count, histogram


def patient_for(seconds: float) -> type[asyncio.Protocol]:
    """The protocol for `uvicorn.Config(http=…)`."""
    return type("PatientProtocol", (PatientProtocol,), {"header_seconds": seconds})


class PatientProtocol(H11Protocol):
    header_seconds = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._head_timer is None:
            self._expect_a_head()  # The next request of a connection; further pieces of its head do not extend the time.

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_a_head(self) -> None:
        self._head_timer = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


# -- frame -------------------------------------------------------------------------------------
# Around every request: its id, the hosts and sizes that we take, the headers that protect browsers, a line in the log.


log = structlog.get_logger()

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ANY_HOST = "*"
PREFIX = "/api/v1"
NO_ROUTE = "(none)"
CLOSING = {"Connection": "close"}
"""The rest of such a body is not waited for."""
MOST_BRACKETS = 200_000
"""To read a body of 4 MB that is nothing but empty lists took 5 s, before anybody was asked who they are."""
MOST_COOKIE_CHARACTERS = 8_192
"""Python before 3.11.10 and 3.12.6 takes 3 s to read 60,000 characters of cookies full of backslashes (CVE-2024-7592)."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

# No inline script anywhere, nothing from elsewhere, nobody may frame us.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex, nofollow",
}


@dataclass(frozen=True, slots=True)
class Limits:
    hosts: Collection[str]
    body_bytes: int
    secure: bool = False
    body_seconds: float = 60.0


class Frame:
    def __init__(self, app: ASGIApp, limits: Limits, new_id: NewId) -> None:
        self._app, self._limits, self._new_id = app, limits, new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request = Framed(scope, send, _id_from(headers) or self._new_id(), self._limits.secure)
        if refused := self._refusal(headers):
            kind, detail = refused
            answer = JSONResponse(problem(kind, detail, request_id=request.id), kind.status, media_type=MEDIA_TYPE)
            await answer(scope, receive, request.send)
        else:
            await self._app(scope, self._counted(receive), request.send)

    def _refusal(self, headers: Headers) -> tuple[Kind, str] | None:
        """Host: a page elsewhere may point a name of its own at us, and would then speak to us as if it were ours."""
        host = host_name(headers.get("host", ""))
        if ANY_HOST not in self._limits.hosts and host not in self._limits.hosts:
            return WRONG_HOST, f"This server does not answer for {host!r:.80}. To let it: CORTEX_ALLOWED_HOSTS"
        if sum(map(len, headers.getlist("cookie"))) > MOST_COOKIE_CHARACTERS:
            return COOKIES_TOO_LARGE, f"The cookies may have {MOST_COOKIE_CHARACTERS:,} characters."
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:18]) > self._limits.body_bytes:
            return TOO_LARGE, self._too_large()
        return None

    def _counted(self, receive: Receive) -> Receive:
        """A body may come without its length, and a short one may hold more lists and objects than can be read in a moment."""
        taken, brackets, is_whole = 0, 0, False
        until = asyncio.get_running_loop().time() + self._limits.body_seconds

        async def receive_counted() -> Message:
            nonlocal taken, brackets, is_whole
            if is_whole:
                return await receive()  # That the caller has gone, whenever that is.
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                seconds = f"{self._limits.body_seconds:g}"
                raise HTTPException(TOO_SLOW.status, f"The body took longer than {seconds} s.", CLOSING) from None
            is_whole = not message.get("more_body", False)
            body: bytes = message.get("body", b"")
            taken += len(body)
            brackets += body.count(b"[") + body.count(b"{")
            if taken > self._limits.body_bytes:
                raise HTTPException(TOO_LARGE.status, self._too_large(), CLOSING)
            if brackets > MOST_BRACKETS:
                raise HTTPException(
                    TOO_LARGE.status, f"The body may have {MOST_BRACKETS:,} opening brackets and braces.", CLOSING
                )
            return message

        return receive_counted

    def _too_large(self) -> str:
        return f"The body may have {self._limits.body_bytes:,} bytes. Store the data elsewhere and pass a reference."


class Framed:
    """One request on its way out."""

    def __init__(self, scope: Scope, send: Send, request_id: str, secure: bool) -> None:
        self._scope, self._send, self.id, self._secure = scope, send, request_id, secure
        self._began = time.monotonic()
        scope.setdefault("state", {})["request_id"] = request_id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if self._secure:
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            self._log(message["status"])
        await self._send(message)

    def _log(self, status: int) -> None:
        """By the route's pattern, not its address: an address may hold a token."""
        seconds = time.monotonic() - self._began
        state: dict[str, Any] = self._scope["state"]
        route: str = getattr(self._scope.get("route"), "path", NO_ROUTE)
        method = self._scope["method"] if self._scope["method"] in METHODS else "OTHER"
        count("http_requests", method=method, route=route, status=str(status))
        histogram("http_request_seconds", route=route).observe(seconds)
        log.info(
            "http.request",
            method=self._scope["method"],
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            request_id=self.id,
            caller=state.get("caller"),
            tenant=state.get("tenant"),
        )


def host_name(host: str) -> str:
    """Without the port; an IPv6 address keeps its brackets."""
    return re.sub(r":\d*$", "", host.strip().lower())


def _id_from(headers: Headers) -> str | None:
    """Callers may name a request, so that their log and ours can be read together."""
    wanted = headers.get("x-request-id", "")
    return wanted if REQUEST_ID.fullmatch(wanted) else None
