"""A job as it goes on: server-sent events, which a browser takes up again by itself where it was cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath
from cortex_plane.adapters.http.routes.found import job_in
from cortex_plane.adapters.http.streams import watches_of
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import CortexError
from cortex_plane.core.events import NothingNew, Position, as_document
from cortex_plane.core.jobs import JobId
from cortex_plane.operations.follow_job import START, follow_job
from cortex_plane.operations.watch_jobs import JobWatch
from cortex_plane.plane import Plane
from cortex_plane.ports.json_text import dumps

router = APIRouter(prefix="/jobs", tags=["jobs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
RETRY_MILLISECONDS = 1_000

DESCRIPTION = {"description": "Events until the job has ended.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


class EventStream(StreamingResponse):
    media_type = "text/event-stream"


@router.get("/{job_id}/events", response_class=EventStream, responses={200: DESCRIPTION})
async def follow(
    request: Request,
    caller: Viewer,
    plane: ThePlane,
    job_id: IdPath,
    last_event_id: Annotated[str | None, Header(max_length=60, description="The id of the last event that arrived.")] = None,
    after: Annotated[str | None, Query(max_length=60, description="The same, where headers cannot be set.")] = None,
) -> EventStream:
    """Follows a job: its states, steps, log lines and progress, from the beginning or from where you were cut off."""
    job = await job_in(plane, caller, job_id)
    given = last_event_id or after
    watch = (await watches_of(request, plane)).jobs
    return EventStream(_events(plane, watch, job.id, Position.parse(given) if given else START))


async def _events(plane: Plane, watch: JobWatch, job_id: JobId, position: Position) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    try:
        async for told in follow_job(await plane.store, plane.clock, job_id, position, watch):
            if isinstance(told.news, NothingNew):
                yield ": nothing new\n\n"
            else:
                yield f"id: {told.position}\nevent: {told.news.type}\ndata: {dumps(as_document(told))}\n\n"
    except CortexError:
        return  # It was deleted, or the database is away: who listens asks again, and is told.
