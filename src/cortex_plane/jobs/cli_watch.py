"""Follows a job until it ends: each change, step and line as it happens, with a spinner or a bar in a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, assert_never

from cortex_plane.cli.errors import EXIT_JOB_FAILED
from cortex_plane.cli.front_page import painted
from cortex_plane.cli.hints import next_step, without_password
from cortex_plane.clock import utc_now
from cortex_plane.durations import ago, span
from cortex_plane.errors import Unavailable
from cortex_plane.jobs.events import (
    JobEnded,
    LineLogged,
    NothingNew,
    ProgressMade,
    StateChanged,
    StepRecorded,
    TimedEvent,
    TokensUsed,
    as_document,
)
from cortex_plane.jobs.follow import START
from cortex_plane.jobs.states import JobStatus
from cortex_plane.server_urls import ServerUnreachable

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.client import Client
    from cortex_plane.jobs.model import HistoryEntry, Job, JobId
    from cortex_plane.jobs.timeline import Timeline
    from cortex_plane.plane import Plane


Value = TypeVar("Value")

AGAIN_SECONDS = 1.0
PATIENCE_SECONDS = 300.0
LEVELS = {"info": "green", "warning": "yellow", "error": "red"}


async def watch_to_the_end(plane: Plane | Client, job_id: JobId, plane_url: str | None, *, as_json: bool) -> int:
    """The exit code of `watch` and of `submit --wait`. As JSON it prints the job as it ended."""
    from cortex_plane.cli.output import console, document, print_json

    if as_json:
        job = await _ended(plane, job_id)
        print_json(job)
        return exit_code(job)
    try:
        with Lines() as lines:
            job = await _tell(plane, job_id, lines)
    except asyncio.CancelledError:
        next_step("The job goes on. To follow it again", f"cortex jobs watch {job_id}", plane_url, stderr=True)
        raise
    if job.output is not None:
        console().print(document(job.output), soft_wrap=True)
    if job.status is JobStatus.FAILED:
        next_step("To see why", f"cortex jobs show {job_id}", plane_url)
    return exit_code(job)


async def print_events(plane: Plane | Client, job_id: JobId) -> int:
    """One JSON object on each line, as it happens; the last has the type `ended`."""
    import orjson

    async for told in persistently(plane, job_id):
        if not isinstance(told.news, NothingNew):
            sys.stdout.write(orjson.dumps(as_document(told), option=orjson.OPT_APPEND_NEWLINE).decode())
            sys.stdout.flush()
        if isinstance(told.news, JobEnded):
            return exit_code(told.news.job)
    raise AssertionError("a stream ends with the end of the job")


def exit_code(job: Job) -> int:
    return 0 if job.status is JobStatus.COMPLETED else EXIT_JOB_FAILED


async def _ended(plane: Plane | Client, job_id: JobId) -> Job:
    async for told in persistently(plane, job_id):
        if isinstance(told.news, JobEnded):
            return told.news.job
    raise AssertionError("a stream ends with the end of the job")


async def persistently(plane: Plane | Client, job_id: JobId) -> AsyncIterator[TimedEvent]:
    """The stream, taken up again where it broke when the database, or the server, was away for a while."""
    position, lost_at = START, None
    while True:
        try:
            async with aclosing(plane.jobs.follow(job_id, position)) as stream:  # type: ignore[type-var]
                async for told in stream:
                    position, lost_at = told.position, None
                    yield told
            return
        except Unavailable as error:
            lost_at = _still_patient(error, lost_at, plane.clock.elapsed())
        await plane.clock.sleep(AGAIN_SECONDS)


async def _patiently(plane: Plane | Client, ask: Callable[[], Awaitable[Value]]) -> Value:
    """The answer, asked for again while the database, or the server, is away."""
    lost_at = None
    while True:
        try:
            return await ask()
        except Unavailable as error:
            lost_at = _still_patient(error, lost_at, plane.clock.elapsed())
        await plane.clock.sleep(AGAIN_SECONDS)


def _still_patient(error: Unavailable, lost_at: float | None, now: float) -> float:
    """Since when it is away; raises what it said last when that was too long ago."""
    if lost_at is None:
        what = "server" if isinstance(error, ServerUnreachable) else "database"
        lead = painted(f"Lost the {what} for now, trying again:", "bold", sys.stderr)
        print(f"{lead} {without_password(str(error))}", file=sys.stderr, flush=True)
        return now
    if now - lost_at > PATIENCE_SECONDS:
        raise error
    return lost_at


async def _tell(plane: Plane | Client, job_id: JobId, lines: Lines) -> Job:
    """Tells the watcher everything, in order, and returns the job when it has ended."""
    timeline: Timeline | None = None
    async for told in persistently(plane, job_id):
        match told.news:
            case StateChanged(entry):
                if timeline is None or entry.revision > timeline.entries[-1].revision:
                    timeline = await _patiently(plane, partial(plane.jobs.timeline, job_id))
                lines.changed(timeline, entry)
            case StepRecorded():
                lines.step(told.news)
            case TokensUsed():
                lines.tokens(told.news)
            case LineLogged():
                lines.logged(told.at, told.news)
            case ProgressMade():
                lines.progressed(told.at, told.news)
            case NothingNew(job):
                lines.waiting(job)
            case JobEnded(job):
                return job
            case unknown:
                assert_never(unknown)
    raise AssertionError("a stream ends with the end of the job")


class Lines:
    """For people: a line for each change, and in a terminal what is going on right now."""

    def __init__(self) -> None:
        from cortex_plane.cli.output import console

        self._console = console()
        self._spinner = self._console.status("") if self._console.is_terminal else None
        self._progress: ProgressMade | None = None
        self._tokens: TokensUsed | None = None

    def __enter__(self) -> Self:
        if self._spinner is not None:
            self._spinner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._spinner is not None:
            self._spinner.stop()
        if self._tokens is not None and kind is None:
            from cortex_plane.jobs.cli_views import tokens_text

            self._console.print(tokens_text(self._tokens), style="dim")

    def changed(self, timeline: Timeline, entry: HistoryEntry) -> None:
        from cortex_plane.cli.output import status, words

        self._print(entry.created_at, status(entry.new_status, entry.label), words(timeline.describe(entry)))

    def step(self, step: StepRecorded) -> None:
        from cortex_plane.cli.output import one_line, words

        took = words(f" {span(step.finished_at - step.started_at)}", "dim")
        self._print(step.finished_at, words("  step"), words(step.name, "bold") + took + words("  ") + one_line(step.summary))

    def tokens(self, tokens: TokensUsed) -> None:
        """In a terminal at once; in a pipe the sum is told at the end."""
        self._tokens = tokens

    def logged(self, at: datetime, line: LineLogged) -> None:
        from json import dumps

        from cortex_plane.cli.output import one_line, words

        data = words("  ") + one_line(dumps(line.data, ensure_ascii=False), "dim") if line.data else words("")
        self._print(at, words(f"  {line.level}", LEVELS.get(line.level, "")), words(line.message) + data)

    def progressed(self, at: datetime, progress: ProgressMade) -> None:
        from cortex_plane.cli.output import words
        from cortex_plane.jobs.cli_views import bar

        self._progress = progress
        if self._spinner is None:
            self._print(at, words("  progress"), bar(progress))
        else:
            self._spinner.update(bar(progress))

    def waiting(self, job: Job) -> None:
        from cortex_plane.cli.output import words
        from cortex_plane.jobs.cli_views import bar, tokens_text

        if self._spinner is None:
            return
        line = words(_right_now(job, utc_now()))
        if self._progress is not None and job.status is JobStatus.RUNNING:
            line = line + words("  ") + bar(self._progress)
        self._spinner.update(line + words("  ") + tokens_text(self._tokens) if self._tokens else line)

    def _print(self, at: datetime, what: Text, words: Text) -> None:
        from rich.text import Text

        line = Text(f"{at.astimezone(UTC):%H:%M:%S}  ", "dim") + what
        line.pad_right(max(0, 22 - len(line)))
        self._console.print(line + Text("  ") + words, soft_wrap=True)


def _right_now(job: Job, now: datetime) -> str:
    match job.status:
        case JobStatus.RUNNING:
            return f"running for {span(now - job.updated_at)}"
        case JobStatus.RETRY if job.next_retry_at and job.next_retry_at > now:
            return job.status_text
        case JobStatus.PENDING if job.run_at and job.run_at > now:
            return f"begins {ago(job.run_at, now)}"
        case JobStatus.WAITING_FOR_APPROVAL:
            return "waiting for a person to decide"
        case _:
            return f"waiting for a worker for {span(now - job.updated_at)}"
