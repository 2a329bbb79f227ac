"""Live updates of open pages, one-time sign-in links, and workers started by `cortex dev`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from hmac import compare_digest
from typing import Annotated, Protocol

from fastapi import APIRouter, Request

from cortex_plane.errors import CortexError
from cortex_plane.http.auth import ThePlane, known
from cortex_plane.http.streams import EventStream, while_allowed
from cortex_plane.people.login import open_sign_in
from cortex_plane.people.roles import SESSION_BYTES, AccountExists, Caller, Role, SignedIn, secret_text
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

AT_MOST_EVERY_SECONDS = 1.5
AT_LEAST_EVERY_SECONDS = 5.0


@router.get("/live", response_class=EventStream)
async def ticks(request: Request, caller: Annotated[Caller, known()], plane: ThePlane) -> EventStream:
    left = request.app.state.streams.admit(caller.name)
    return EventStream(while_allowed(request, plane, caller, None, _ticks(plane)), left)


async def _ticks(plane: Plane) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    try:
        signals = plane.store.signals
    except CortexError:
        return
    woken = asyncio.Event()
    signals.subscribe(woken)
    try:
        while True:
            await asyncio.sleep(AT_MOST_EVERY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(AT_LEAST_EVERY_SECONDS - AT_MOST_EVERY_SECONDS):
                    await woken.wait()
            woken.clear()
            yield "event: tick\ndata: {}\n\n"
    finally:
        signals.unsubscribe(woken)


# -- first link --------------------------------------------------------------------------------
# A link that signs one browser in, once: whoever sees the terminal in which the server was started may enter.


NAME = "developer"
ROLES = (Role.ADMIN, Role.APPROVER)


class FirstLink:
    """The token is known to this process only, and forgotten when it was used."""

    def __init__(self, random_bytes: bytes) -> None:
        assert len(random_bytes) >= SESSION_BYTES
        self._token: str | None = secret_text(random_bytes)

    def address(self, base: str) -> str:
        return f"{base}/first?token={self._token}"

    async def redeem(self, plane: Plane, token: str, address: str) -> SignedIn | None:
        if self._token is None or not compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode()):
            return None
        self._token = None
        return await _sign_in(plane, address)


async def _sign_in(plane: Plane, address: str) -> SignedIn:
    try:
        await plane.access.add_user(NAME, actor="cortex dev")
    except AccountExists:
        pass
    for role in ROLES:
        await plane.access.give_role(NAME, role, actor="cortex dev")
    return await open_sign_in(plane.store, await plane.access.user(NAME), address)


# -- workshop ----------------------------------------------------------------------------------
# Workers that the server itself has started, as `cortex dev` does: they may be killed from a page, to see a job resume.


class Workshop(Protocol):
    def has(self, worker_name: str) -> bool: ...

    def kill(self, worker_name: str) -> bool:
        """At once, without a word to it; another is started in its place. False when there is no such worker."""
