"""A list of jobs as it changes: server-sent events, which a browser takes up again by itself where it was cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Query, Request
from pydantic import TypeAdapter

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import MomentQuery, NameQuery
from cortex_plane.adapters.http.routes.job_events import RETRY_MILLISECONDS, EventStream
from cortex_plane.adapters.http.routes.jobs import Status
from cortex_plane.adapters.http.streams import watches_of
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import CortexError, Unavailable
from cortex_plane.core.instants import Instant
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.follow_jobs import ListNews, Unchanged, follow_jobs, kind_of
from cortex_plane.operations.search_jobs import JobWish, search_jobs
from cortex_plane.ports.clock import Clock

router = APIRouter(prefix="/jobs", tags=["jobs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
POSITION = "^[0-9]{1,18}$"
LONGEST_SECONDS = 300.0
SILENT_SECONDS = 10.0
"""For so long at most a stream says nothing: whoever listens, and whatever stands between, would take it for dead."""
MOST_STREAMS = 200
"""So many at a time in one process."""

DESCRIPTION = {
    "description": "`list` (the ids that are in it), then `job` (one job as it now is) and `left` (one that is no longer in it).",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@router.get("/events", response_class=EventStream, responses={200: DESCRIPTION})
async def follow_list(
    request: Request,
    caller: Viewer,
    plane: ThePlane,
    status: Status | None = None,
    agent: NameQuery = None,
    queue: NameQuery = None,
    tag: NameQuery = None,
    text: Annotated[NameQuery, Query(description="Found anywhere in the payload; case is ignored.")] = None,
    since: MomentQuery = None,
    until: MomentQuery = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many jobs are followed: the newest ones.")] = 50,
    last_event_id: Annotated[str | None, Header(pattern=POSITION, description="The id of the last event that arrived.")] = None,
    after: Annotated[str | None, Query(pattern=POSITION, description="The same, where headers cannot be set.")] = None,
) -> EventStream:
    """Follows a list of jobs, by the filters of GET /api/v1/jobs: the list as it is, then what changes. Ends after five minutes;
    who asks again with the id of the last event is told what has changed since."""
    if request.app.state.streams >= MOST_STREAMS:
        raise Unavailable(f"{MOST_STREAMS} lists are followed here already. Ask again in a moment, or another server.")
    opened = await plane._open_here()
    wish = JobWish(JobStatus(status) if status else None, agent, queue, tag, text, since, until)
    await search_jobs(opened.store, opened.directory, wish, tenant_id=caller.tenant_id, limit=1)  # What is wrong is told now.
    given = last_event_id or after
    told = follow_jobs(
        (await watches_of(request, plane)).lists,
        plane.clock,
        wish,
        tenant_id=caller.tenant_id,
        seen=None if given is None else Instant(int(given)),
        limit=limit,
        seconds=LONGEST_SECONDS,
    )
    return EventStream(_events(request.app, plane.clock, told))


async def _events(app: FastAPI, clock: Clock, told: AsyncIterator[tuple[Instant, list[ListNews]]]) -> AsyncIterator[str]:
    """All that a look has brought in one piece: many small ones would cost more than the look."""
    app.state.streams += 1
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
        spoke_at = clock.elapsed()
        async for position, news in told:
            if news == [Unchanged()] and clock.elapsed() - spoke_at < SILENT_SECONDS:
                continue
            spoke_at = clock.elapsed()
            yield "".join(_event(position, one) for one in news)
    except CortexError:
        return  # The database is away: who listens asks again, and is told.
    finally:
        app.state.streams -= 1


def _event(position: Instant, news: ListNews) -> str:
    if isinstance(news, Unchanged):
        return ": nothing new\n\n"
    return f"id: {position}\nevent: {kind_of(news)}\ndata: {_data(news)}\n\n"


def _data(news: Any) -> str:
    shown = getattr(news, "job", news)
    kind: Any = type(shown)
    return _adapter(kind).dump_json(shown).decode()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once: that takes longer than all that it then writes."""
    return TypeAdapter(kind)
