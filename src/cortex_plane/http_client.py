"""HTTP client for calls to other services. Refuses private addresses unless the caller allows them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Protocol

from cortex_plane.errors import Denied, InvalidInput, Unavailable

if TYPE_CHECKING:
    import ssl

    import httpx


Network = IPv4Network | IPv6Network

# IPv4 addresses embedded in IPv6 addresses (RFC 6052, RFC 8215, RFC 2765, RFC 4291).
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")))
# Networks inside one organisation. Python considers the second one public.
_LOCAL = tuple(map(IPv6Network, ("64:ff9b:1::/48", "fec0::/10")))


def is_public(address: str) -> bool:
    """False for private, loopback, link-local, multicast and reserved addresses, also if embedded in other addresses."""
    return all(_is_public(one) for one in _layers(ip_address(address)))


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in network for network in _LOCAL)


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def networks(text: str, name: str) -> tuple[Network, ...]:
    """Parses addresses and networks: `10.0.0.0/8, 192.0.2.7`. Raises InvalidInput."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise InvalidInput(f"{name} must be addresses or networks such as 10.0.0.0/8, separated by commas: {error}.") from None


def is_in(address: str, among: Iterable[Network]) -> bool:
    try:
        one = _plain(ip_address(address))
    except ValueError:
        return False
    return any(one in network for network in among)


def client_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """The client's address behind trusted proxies, from X-Forwarded-For.

    Each proxy appends the address that it was called from. The header is read from the right, up to the first address that is
    not a trusted proxy; everything left of it is supplied by the client and ignored."""
    address = peer
    for hop in reversed(forwarded.split(",") if forwarded else ()):
        if not is_in(address, proxies) or not is_address(hop.strip()):
            break
        address = hop.strip()
    return address


def network_of(address: str) -> str:
    """The key for rate limits: the address itself, or the /64 network of an IPv6 address."""
    try:
        one = _plain(ip_address(address))
    except ValueError:
        return address
    return str(one) if isinstance(one, IPv4Address) else str(IPv6Network((int(one) >> 64 << 64, 64)))


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _layers(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address and all addresses embedded in it, in the order of routing."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]  # A notation only: the outer form is never on the wire.
    if any(address in network for network in _TRANSLATED):
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    wrapped = [address.sixtofour, *(address.teredo or ())]
    return [address, *(one for one in wrapped if one is not None)]


# -- http --------------------------------------------------------------------------------------
# HTTP requests to untrusted addresses: with a timeout, without redirects, and not to private addresses unless allowed.


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """`body` is truncated at the caller's limit; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoResponse(Unavailable):
    """The host could not be reached, or did not answer in time."""


class PrivateAddress(Denied):
    """The host name resolves to a private address."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(f"{host} resolves to {address}, which is not a public address.")
        self.host, self.address = host, address


class Http(Protocol):
    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, answer_limit_bytes: int, allow_private: bool
    ) -> HttpResponse:
        """Like `post`, without a body."""

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        """Sends one request. The timeout covers the whole exchange, redirects are not followed, and the connection uses the
        address that was checked. Raises NoResponse or PrivateAddress."""

    async def patch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        """Like `post`."""


# -- http client -------------------------------------------------------------------------------
# The host name is resolved once, and the checked address is used: a second lookup could return another address.


STANDARD_PORTS = {"https": 443, "http": 80}


class HttpxClient:
    """`Http` by httpx, which is imported with the first request because the import is slow."""

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        return await _send("POST", url, headers, body, timeout_seconds, answer_limit_bytes, allow_private)

    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, answer_limit_bytes: int, allow_private: bool
    ) -> HttpResponse:
        return await _send("GET", url, headers, b"", timeout_seconds, answer_limit_bytes, allow_private)

    async def put(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        return await _send("PUT", url, headers, body, timeout_seconds, answer_limit_bytes, allow_private)

    async def patch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        return await _send("PATCH", url, headers, body, timeout_seconds, answer_limit_bytes, allow_private)


async def _send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_seconds: float,
    answer_limit_bytes: int,
    allow_private: bool,
) -> HttpResponse:
    from httpx import URL

    wanted = URL(url)
    try:
        async with asyncio.timeout(timeout_seconds):
            addresses = await _look_up(wanted, allow_private)
            request = _Request(method, wanted, dict(headers), body, answer_limit_bytes)
            return await _first_answer(request, addresses, timeout_seconds)
    except TimeoutError:
        raise NoResponse(f"{wanted.host} did not answer within {timeout_seconds:g} s.") from None


class _Request:
    def __init__(self, method: str, url: httpx.URL, headers: dict[str, str], body: bytes, answer_limit_bytes: int) -> None:
        self.method, self.url, self.body, self.answer_limit_bytes = method, url, body, answer_limit_bytes
        self.headers = {**headers, "host": url.netloc.decode("ascii"), "accept-encoding": "identity"}

    def at(self, address: str, timeout: dict[str, Any]) -> dict[str, Any]:
        """The request to this address. The Host header and the verified certificate keep the name."""
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
        raise NoResponse(f"{url.host} could not be resolved: {error}.") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not allow_private and not is_public(address):
            raise PrivateAddress(url.host, address)
    return addresses


async def _first_answer(request: _Request, addresses: list[str], timeout_seconds: float) -> HttpResponse:
    """Tries the addresses of a host in order: some may not be reachable from here."""
    import httpx

    problem = "it has no address"
    for address in addresses:
        try:
            return await _ask(request, address, connect_seconds=timeout_seconds / len(addresses))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problem = _words(error) or "the connection timed out"
        except httpx.HTTPError as error:
            raise NoResponse(f"{request.url.host} did not answer: {_words(error) or type(error).__name__}.") from error
    raise NoResponse(f"{request.url.host} cannot be reached: {problem}.")


def _words(error: Exception) -> str:
    return str(error).rstrip(".")


async def _ask(request: _Request, address: str, connect_seconds: float) -> HttpResponse:
    """Connections are not reused: one for another name at the same address must not be used for this request.

    Uses the transport, not a client: a client logs every URL, and some URLs contain secrets.
    """
    import httpx

    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncHTTPTransport(verify=_trust(), trust_env=False, limits=limits) as transport:
        timeout = httpx.Timeout(None, connect=connect_seconds).as_dict()
        response = await transport.handle_async_request(httpx.Request(**request.at(address, timeout)))
        try:
            body = await _beginning(response, request.answer_limit_bytes)
            return HttpResponse(response.status_code, dict(response.headers), body)
        finally:
            await response.aclose()


async def _beginning(response: httpx.Response, limit_bytes: int) -> bytes:
    """The raw bytes, not decompressed: a small body could expand to a huge one."""
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
