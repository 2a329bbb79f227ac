"""All jobs of a tenant: look for them by what they are like."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from cortex_plane.adapters.dashboard.notes import go_to
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.pages import Cursor, cursor_for, id_in
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import CortexError, InvalidInput
from cortex_plane.core.job_search import JobPage
from cortex_plane.core.jobs import JobId
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.find_job import find_job
from cortex_plane.operations.search_jobs import JobWish, search_jobs

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER)]
Word = Annotated[str, Query(max_length=200)]
SHOWN = 50
ID_LETTERS = frozenset("0123456789abcdef-")


@router.get("/jobs")
async def jobs(
    request: Request,
    caller: Viewer,
    plane: ThePlane,
    status: Word = "",
    agent: Word = "",
    queue: Word = "",
    tag: Word = "",
    text: Word = "",
    since: Word = "",
    until: Word = "",
    cursor: Cursor = None,
) -> Response:
    """What is wrong with a filter is told beside it; an id, or the beginning of one, leads to its job."""
    asked = {"status": status, "agent": agent, "queue": queue, "tag": tag, "text": text, "since": since, "until": until}
    opened = await plane._open_here()
    if (found := await _by_id(plane, caller, text)) is not None:
        return go_to(f"/jobs/{found}" + (f"?tenant={caller.tenant}" if "tenant" in request.query_params else ""))
    problem = None
    listed = JobPage([], None)
    try:
        before = id_in("job", cursor)
        listed = await search_jobs(
            opened.store,
            opened.directory,
            _wish(asked),
            tenant_id=caller.tenant_id,
            before=None if before is None else JobId(before),
            limit=SHOWN,
        )
    except CortexError as error:
        problem = str(error)
    agents = [one.job_type for one in await opened.store.agents.list() if not one.job_type.startswith("cortex.")]
    return await page(
        request,
        caller,
        "jobs.html",
        jobs=listed.jobs,
        next=cursor_for("job", listed.next_before) if listed.next_before else None,
        asked=asked,
        is_filtered=any(asked.values()),
        first_page=cursor is None,
        problem=problem,
        agents=agents,
        statuses=list(JobStatus),
    )


def _wish(asked: dict[str, str]) -> JobWish:
    values: dict[str, Any] = {name: value.strip() or None for name, value in asked.items()}
    if values["status"] is not None and values["status"] not in list(JobStatus):
        raise InvalidInput(f"There is no status {values['status']!r:.60}.", field="status")
    values["status"] = JobStatus(values["status"]) if values["status"] else None
    for name in ("since", "until"):
        values[name] = _moment(values[name], name)
    return JobWish(**values)


def _moment(text: str | None, field: str) -> datetime | None:
    """As a browser's own field for times writes it; that is UTC, as the page says."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{field} must be a time such as 2026-07-01T09:30, in UTC.", field=field) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def _by_id(plane: ThePlane, caller: Caller, text: str) -> str | None:
    """Eight letters or more of an id are meant as one."""
    word = text.strip().lower()
    if len(word) < 8 or not set(word) <= ID_LETTERS:
        return None
    try:
        job = await find_job(await plane.store, word)
    except CortexError:
        return None
    return job.id if job.tenant_id == caller.tenant_id else None
