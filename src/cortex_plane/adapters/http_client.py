"""HTTP by httpx, to addresses that are looked up once, checked, and then used: a second look-up could say something else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from cortex_plane.core.addresses import is_public
from cortex_plane.ports.http import Answer, NoAnswer, PrivateAddress

if TYPE_CHECKING:
    import ssl

    import httpx

STANDARD_PORTS = {"https": 443, "http": 80}


class HttpxClient:
    """Importing httpx takes a while, so that is left to the first request."""

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
        return await _send("POST", url, headers, body, timeout_seconds, answer_limit_bytes, allow_private)

    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, answer_limit_bytes: int, allow_private: bool
    ) -> Answer:
        return await _send("GET", url, headers, b"", timeout_seconds, answer_limit_bytes, allow_private)

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
        return await _send("PATCH", url, headers, body, timeout_seconds, answer_limit_bytes, allow_private)


async def _send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_seconds: float,
    answer_limit_bytes: int,
    allow_private: bool,
) -> Answer:
    from httpx import URL

    wanted = URL(url)
    try:
        async with asyncio.timeout(timeout_seconds):
            addresses = await _look_up(wanted, allow_private)
            request = _Request(method, wanted, dict(headers), body, answer_limit_bytes)
            return await _first_answer(request, addresses, timeout_seconds)
    except TimeoutError:
        raise NoAnswer(f"{wanted.host} did not answer within {timeout_seconds:g} s.") from None


class _Request:
    def __init__(self, method: str, url: httpx.URL, headers: dict[str, str], body: bytes, answer_limit_bytes: int) -> None:
        self.method, self.url, self.body, self.answer_limit_bytes = method, url, body, answer_limit_bytes
        self.headers = {**headers, "host": url.netloc.decode("ascii"), "accept-encoding": "identity"}

    def at(self, address: str, timeout: dict[str, Any]) -> dict[str, Any]:
        """The request, sent to the address; the name stays in the Host header and in what the certificate must say."""
        return {
            "method": self.method,
            "url": self.url.copy_with(host=address),
            "headers": self.headers,
            "content": self.body,
            "extensions": {"sni_hostname": self.url.raw_host.decode("ascii"), "timeout": timeout},
        }


async def _look_up(url: httpx.URL, allow_private: bool) -> list[str]:
    host, port = url.raw_host.decode("ascii").strip("[]"), url.port or STANDARD_PORTS[url.scheme]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NoAnswer(f"{url.host} could not be looked up: {error}.") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not allow_private and not is_public(address):
            raise PrivateAddress(url.host, address)
    return addresses


async def _first_answer(request: _Request, addresses: list[str], timeout_seconds: float) -> Answer:
    """A host may have addresses that cannot be reached from here; then the next one may do."""
    import httpx

    problem = "it has no address"
    for address in addresses:
        try:
            return await _ask(request, address, connect_seconds=timeout_seconds / len(addresses))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problem = _words(error) or "it did not take the connection in time"
        except httpx.HTTPError as error:
            raise NoAnswer(f"{request.url.host} gave no answer: {_words(error) or type(error).__name__}.") from error
    raise NoAnswer(f"{request.url.host} cannot be reached: {problem}.")


def _words(error: Exception) -> str:
    return str(error).rstrip(".")


async def _ask(request: _Request, address: str, connect_seconds: float) -> Answer:
    """No connection is kept: one that was made for another name at the same address must not be used for this one.

    By the transport, not by a client, which would log every URL; some are secrets, or hold one.
    """
    import httpx

    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncHTTPTransport(verify=_trust(), trust_env=False, limits=limits) as transport:
        timeout = httpx.Timeout(None, connect=connect_seconds).as_dict()
        response = await transport.handle_async_request(httpx.Request(**request.at(address, timeout)))
        try:
            body = await _beginning(response, request.answer_limit_bytes)
            return Answer(response.status_code, dict(response.headers), body)
        finally:
            await response.aclose()


async def _beginning(response: httpx.Response, limit_bytes: int) -> bytes:
    """As it comes over the wire: unpacking could make much of little."""
    read = bytearray()
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= limit_bytes:
            break
    return bytes(read[:limit_bytes])


@cache
def _trust() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=False)
