"""One job, for a developer whose agent fails: what happened, when, how long each step took, what it said, why it waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from cortex_plane.adapters.dashboard.charts import Span, timeline, waterfall_row
from cortex_plane.adapters.dashboard.rendering import kind_of_status, page, words_of
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath
from cortex_plane.adapters.http.routes.found import job_in
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.events import JobEvent, Position
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import HistoryEntry, Job, Run
from cortex_plane.core.spans import span
from cortex_plane.core.states import RunStatus
from cortex_plane.insides import Inside

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER)]
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


@router.get("/jobs/{job_id}")
async def job_page(request: Request, caller: Viewer, plane: ThePlane, job_id: IdPath) -> Response:
    job = await job_in(plane, caller, job_id)
    store = await plane.store
    story = await plane.story(job.id, with_names=True)
    inside = await plane.inside(job)
    events = await store.stats.last_events(job.id, LINES)
    now = as_datetime(plane.clock.now())
    chain = await plane.chain(job.id)
    lines = [_line(event) for event in reversed(events) if event.kind == "log"]
    return await page(
        request,
        caller,
        "job.html",
        job=job,
        story=story,
        inside=inside,
        why=[] if job.status.is_terminal else await plane.why(job.id),
        states=states_of(story.entries, job, now),
        runs=runs_of(story.runs, job, now),
        steps=steps_of(inside.steps),
        lines=lines,
        lines_are_all=len(events) < LINES,
        position=_position(job, inside, events),
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


def _position(job: Job, inside: Inside, events: list[JobEvent]) -> Position:
    """What the page shows already; the stream of events goes on from here."""
    steps = max((step["step_index"] for step in inside.steps), default=0)
    return Position(job.revision, steps, events[0].seq if events else 0)
