"""HTTP without a network: to an application in this process, through everything that a request from outside goes through."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cortex_plane.ports.http import Answer, NoAnswer


@dataclass(frozen=True, slots=True)
class AsgiClient:
    app: Any

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> Answer:
        return await self._send("POST", url, headers, body, timeout_seconds, answer_limit_bytes)

    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, answer_limit_bytes: int, allow_private: bool
    ) -> Answer:
        return await self._send("GET", url, headers, b"", timeout_seconds, answer_limit_bytes)

    async def patch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> Answer:
        return await self._send("PATCH", url, headers, body, timeout_seconds, answer_limit_bytes)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float, answer_limit_bytes: int
    ) -> Answer:
        import httpx

        request = httpx.Request(method, url, headers={**headers, "accept-encoding": "identity"}, content=body)
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await httpx.ASGITransport(self.app, raise_app_exceptions=False).handle_async_request(request)
                content = await answer.aread()
        except TimeoutError:
            raise NoAnswer(f"{request.url.host} did not answer within {timeout_seconds:g} s.") from None
        return Answer(answer.status_code, dict(answer.headers), content[:answer_limit_bytes])
