"""One HTTP request to somebody whom we do not know: in time, not redirected, and not to ourselves unless that is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cortex_plane.core.errors import Denied, Unavailable


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is cut where the caller's limit is; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(Unavailable):
    """Nobody was reached, or nobody answered in time."""


class PrivateAddress(Denied):
    """The name leads to an address that is not on the public Internet."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(f"{host} leads to {address}, which is not a public address.")
        self.host, self.address = host, address


class Http(Protocol):
    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, answer_limit_bytes: int, allow_private: bool
    ) -> Answer:
        """As `post`, without a body."""

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
        """The timeout is for everything together. Redirects are answers. The address that was checked is the one that is used.
        Raises NoAnswer or PrivateAddress."""

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
        """As `post`."""
