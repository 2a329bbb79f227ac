"""HTTP: event streams of one job and of lists of jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import TypeAdapter

from cortex_plane.clock import Clock, Instant
from cortex_plane.errors import CortexError
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.inputs import IdPath, MomentQuery, NameQuery
from cortex_plane.http.lookups import job_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.http.streams import EventStream, watches_of, while_allowed
from cortex_plane.jobs.events import NothingNew, Position, as_document
from cortex_plane.jobs.follow import START, JobWatch, follow_job
from cortex_plane.jobs.http import Status
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.search import JobWish, search_jobs
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.watch_lists import ListNews, Unchanged, follow_jobs, kind_of
from cortex_plane.json import dumps
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
RETRY_MILLISECONDS = 1_000

DESCRIPTION = {"description": "Events until the job has ended.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get("/{job_id}/events", response_class=EventStream, responses={200: DESCRIPTION})
async def follow(
    request: Request,
    caller: Viewer,
    plane: ThePlane,
    job_id: IdPath,
    last_event_id: Annotated[str | None, Header(max_length=60, description="The id of the last event that arrived.")] = None,
    after: Annotated[str | None, Query(max_length=60, description="The same, where headers cannot be set.")] = None,
) -> EventStream:
    """Follows a job: its states, steps, log lines and progress, from the beginning or from where you were cut off. Ends
    after the setting stream_seconds; ask again with the id of the last event."""
    job = await job_in(plane, caller, job_id)
    given = last_event_id or after
    watch = (await watches_of(request, plane)).jobs
    told, left = (
        _events(plane, watch, job.id, Position.parse(given) if given else START),
        request.app.state.streams.admit(caller.name),
    )
    return EventStream(while_allowed(request, plane, caller, Role.VIEWER, told), left)


async def _events(plane: Plane, watch: JobWatch, job_id: JobId, position: Position) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    try:
        async for told in follow_job(plane.store, plane.clock, job_id, position, watch):
            if isinstance(told.news, NothingNew):
                yield ": nothing new\n\n"
            else:
                yield f"id: {told.position}\nevent: {told.news.type}\ndata: {dumps(as_document(told))}\n\n"
    except CortexError:
        return  # It was deleted, or the database is away: who listens asks again, and is told.


# -- list events -------------------------------------------------------------------------------
# A list of jobs as it changes: server-sent events, which a browser takes up again by itself where it was cut off.


list_events_router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"])
POSITION = "^[0-9]{1,18}$"
SILENT_SECONDS = 10.0
"""For so long at most a stream says nothing: whoever listens, and whatever stands between, would take it for dead."""

LIST_DESCRIPTION = {
    "description": "`list` (the ids that are in it), then `job` (one job as it now is) and `left` (one that is no longer in it).",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@list_events_router.get("/events", response_class=EventStream, responses={200: LIST_DESCRIPTION})
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
    """Follows a list of jobs, by the filters of GET /api/v1/jobs: the list as it is, then what changes. Ends after the setting
    stream_seconds; who asks again with the id of the last event is told what has changed since."""
    wish = JobWish(JobStatus(status) if status else None, agent, queue, tag, text, since, until)
    await search_jobs(plane.store, plane.directory, wish, tenant_id=caller.tenant_id, limit=1)  # What is wrong is told now.
    given = last_event_id or after
    told = follow_jobs(
        (await watches_of(request, plane)).lists,
        plane.clock,
        wish,
        tenant_id=caller.tenant_id,
        seen=None if given is None else Instant(int(given)),
        limit=limit,
        seconds=plane.settings.stream_seconds,
    )
    left = request.app.state.streams.admit(caller.name)
    return EventStream(while_allowed(request, plane, caller, Role.VIEWER, _list_events(plane.clock, told)), left)


async def _list_events(clock: Clock, told: AsyncIterator[tuple[Instant, list[ListNews]]]) -> AsyncIterator[str]:
    """All that a look has brought in one piece: many small ones would cost more than the look."""
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
