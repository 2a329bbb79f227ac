"""Dashboard pages: list of jobs, one job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from cortex_plane.clock import as_datetime
from cortex_plane.cursors import cursor_for
from cortex_plane.dashboard.charts import Span, timeline, waterfall_row
from cortex_plane.dashboard.flash import go_to
from cortex_plane.dashboard.render import kind_of_status, page, words_of
from cortex_plane.durable.details import JobDetails
from cortex_plane.durations import span
from cortex_plane.errors import CortexError, InvalidInput
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.inputs import Cursor, IdPath, id_in
from cortex_plane.http.lookups import job_in
from cortex_plane.jobs.events import JobEvent, Position
from cortex_plane.jobs.lookup import find_job
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, Run
from cortex_plane.jobs.search import JobPage, JobWish, search_jobs
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.people.roles import Caller, Role
from cortex_plane.queues.why import explain_job

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
    if (found := await _by_id(plane, caller, text)) is not None:
        return go_to(f"/jobs/{found}" + (f"?tenant={caller.tenant}" if "tenant" in request.query_params else ""))
    problem = None
    listed = JobPage([], None)
    try:
        before = id_in("job", cursor)
        listed = await search_jobs(
            plane.store,
            plane.directory,
            _wish(asked),
            tenant_id=caller.tenant_id,
            before=None if before is None else JobId(before),
            limit=SHOWN,
        )
    except CortexError as error:
        problem = str(error)
    agents = [one.job_type for one in await plane.directory.agents() if not one.job_type.startswith("cortex.")]
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
        job = await find_job(plane.store, word)
    except CortexError:
        return None
    return job.id if job.tenant_id == caller.tenant_id else None


# -- one job -----------------------------------------------------------------------------------
# One job, for a developer whose agent fails: what happened, when, how long each step took, what it said, why it waits.


job_router = APIRouter(include_in_schema=False)
LINES = 300


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    name: str
    took: str
    summary: str
    tool_calls: int
    bar: Markup


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    level: str
    message: str
    data: Any


@job_router.get("/jobs/{job_id}")
async def job_page(request: Request, caller: Viewer, plane: ThePlane, job_id: IdPath) -> Response:
    job = await job_in(plane, caller, job_id)
    store = plane.store
    timeline = await plane.jobs.timeline(job.id, with_names=True)
    details = await plane.jobs.details(job)
    events = await store.stats.last_events(job.id, LINES)
    now = as_datetime(plane.clock.now())
    chain = await plane.jobs.chain(job.id)
    lines = [_line(event) for event in reversed(events) if event.kind == "log"]
    only_here = not caller.may(Role.VIEWER, everywhere=True)
    return await page(
        request,
        caller,
        "job.html",
        job=job,
        timeline=timeline,
        details=details,
        why=[] if job.status.is_terminal else await explain_job(plane.store, job, only_here=only_here),
        states=states_of(timeline.entries, job, now),
        runs=runs_of(timeline.runs, job, now),
        steps=steps_of(details.steps),
        lines=lines,
        lines_are_all=len(events) < LINES,
        position=_position(job, details, events),
        chain=chain if len(chain) > 1 else [],
        approvals=await store.approvals.list(job_id=job.id, open_only=False),
        took=span((job.finished_at or now) - job.created_at),
    )


def states_of(entries: list[HistoryEntry], job: Job, now: datetime) -> Markup:
    """In which state it was, from when to when."""
    end = job.finished_at or now
    began = entries[0].created_at if entries else job.created_at
    total = max((end - began).total_seconds(), 0.001)
    spans: list[Span] = []
    for number, entry in enumerate(entries):
        until = entries[number + 1].created_at if number + 1 < len(entries) else end
        if entry.new_status.is_terminal:
            continue
        title = f"{words_of(entry.new_status)} for {span(until - entry.created_at)}"
        start, stop = (entry.created_at - began).total_seconds(), (until - began).total_seconds()
        spans.append(Span(kind_of_status(entry.new_status), title, start, stop))
    return timeline(spans, total, "States over time")


def runs_of(runs: list[Run], job: Job, now: datetime) -> list[tuple[Run, Markup, str]]:
    end = job.finished_at or now
    total = max((end - job.created_at).total_seconds(), 0.001)
    found: list[tuple[Run, Markup, str]] = []
    for run in runs:
        until = run.finished_at or now
        took = span(until - run.started_at)
        start, stop = (run.started_at - job.created_at).total_seconds(), (until - job.created_at).total_seconds()
        found.append((run, waterfall_row(Span(_kind_of_run(run), f"Run {run.attempt}: {took}", start, stop), total), took))
    return found


def _kind_of_run(run: Run) -> str:
    """A run that ended at an approval or a sleep ended well."""
    resting = (RunStatus.WAITING, RunStatus.SLEEPING)
    return "waiting-for-approval" if run.status in resting else kind_of_status(run.status)


def steps_of(logged: list[dict[str, Any]]) -> list[Step]:
    timed = [(step, datetime.fromisoformat(step["started_at"]), datetime.fromisoformat(step["finished_at"])) for step in logged]
    if not timed:
        return []
    began, ended = min(start for _, start, _ in timed), max(end for _, _, end in timed)
    total = max((ended - began).total_seconds(), 0.001)
    return [
        Step(
            step["step_index"],
            step["step_id"],
            span(end - start),
            step["result_summary"],
            step["tool_calls"],
            waterfall_row(
                Span(
                    "tool" if step["tool_calls"] else "step",
                    f"{step['step_id']}: {span(end - start)}",
                    (start - began).total_seconds(),
                    (end - began).total_seconds(),
                ),
                total,
            ),
        )
        for step, start, end in timed
    ]


def _line(event: JobEvent) -> Line:
    data = event.data if isinstance(event.data, dict) else {}
    return Line(event.at, str(data.get("level", "info")), str(data.get("message", "")), data.get("data"))


def _position(job: Job, details: JobDetails, events: list[JobEvent]) -> Position:
    """What the page shows already; the stream of events goes on from here."""
    steps = max((step["step_index"] for step in details.steps), default=0)
    return Position(job.revision, steps, events[0].seq if events else 0)
