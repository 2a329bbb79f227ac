"""What the event streams of one app share: one look at the database for all who follow the same, and how many there may be.

A stream ends when whoever opened it may no longer see it (the key was revoked, the account disabled, the role taken), within
CHECK_SECONDS or a little more, and after the setting `stream_seconds` in any case: who listens asks again with the id of the last
event.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from time import monotonic

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cortex_plane.errors import CortexError
from cortex_plane.http.auth import shown_by, still_may
from cortex_plane.jobs.follow import JobWatch
from cortex_plane.jobs.watch_lists import ListWatch
from cortex_plane.people.roles import Caller, Role, TooManyStreams
from cortex_plane.plane import Plane
from cortex_plane.storage.database import DatabaseSession

CHECK_SECONDS = 2.0
SHORTEST_WAIT_SECONDS = 0.05


@dataclass(slots=True)
class Admissions:
    """Who was found to be allowed, and when: all streams of one key or cookie share one look."""

    _looked: dict[tuple[str, str, Role | None], tuple[float, bool]] = field(default_factory=dict)

    async def still(self, request: Request, caller: Caller, role: Role | None) -> bool:
        now, key = monotonic(), (shown_by(request), caller.tenant_id, role)
        known = self._looked.get(key)
        if known is not None and now - known[0] < CHECK_SECONDS:
            return known[1]
        try:
            allowed = await still_may(request, caller, role)
        except CortexError:
            return True  # The database is away: that says nothing about the caller.
        self._looked = {one: seen for one, seen in self._looked.items() if now - seen[0] < 2 * CHECK_SECONDS}
        self._looked[key] = (now, allowed)
        return allowed


async def while_allowed(
    request: Request, plane: Plane, caller: Caller, role: Role | None, events: AsyncIterator[str]
) -> AsyncIterator[str]:
    """The events, until their reader may see them no longer, or has seen them for long enough."""
    admissions: Admissions = request.app.state.admissions
    ends_at = monotonic() + plane.settings.stream_seconds
    coming: asyncio.Future[str] | None = None
    try:
        while (left := ends_at - monotonic()) > -CHECK_SECONDS:  # What is there already is told first.
            coming = coming or asyncio.ensure_future(anext(events))
            await asyncio.wait([coming], timeout=max(SHORTEST_WAIT_SECONDS, min(CHECK_SECONDS, left)))
            if not await admissions.still(request, caller, role) or (left <= 0 and not coming.done()):
                return
            if coming.done():
                event, coming = coming.result(), None
                yield event
    except StopAsyncIteration:
        return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await events.aclose()  # type: ignore[attr-defined]


class OpenStreams:
    """How many are open in this process, and whose they are."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._open: Counter[str] = Counter()

    def admit(self, caller: str) -> Callable[[], None]:
        """What to call when it has ended. Raises TooManyStreams."""
        if self._open[caller] >= self._most_of_one:
            raise TooManyStreams(self._most_of_one, "of yours")
        if self._open.total() >= self._most:
            raise TooManyStreams(self._most, "of this server")
        self._open[caller] += 1
        return lambda: self._leave(caller)

    def _leave(self, caller: str) -> None:
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


class EventStream(StreamingResponse):
    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[str], left: Callable[[], None] = lambda: None, status_code: int = 200) -> None:
        """`left` is called when the stream ends, even if nobody read the first event of it."""
        super().__init__(events, status_code)
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


@dataclass(frozen=True, slots=True)
class Watches:
    session: DatabaseSession
    jobs: JobWatch
    lists: ListWatch


async def watches_of(request: Request, plane: Plane) -> Watches:
    """Of the store as it is open now: a plane that was closed and opened again has another one."""
    session = plane.store.database.session
    kept: Watches | None = getattr(request.app.state, "watches", None)
    if kept is None or kept.session is not session:
        kept = Watches(session, JobWatch(plane.store, plane.clock), ListWatch(plane.store, plane.directory, plane.clock))
        request.app.state.watches = kept
    return kept
