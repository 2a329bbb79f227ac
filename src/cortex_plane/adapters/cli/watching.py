"""Follows a job until it ends: each change as it happens, with a spinner in a terminal."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from cortex_plane.adapters.cli.errors import EXIT_JOB_FAILED
from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.stories import Story
from cortex_plane.adapters.cli.times import ago, span
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.errors import JobNotFound
from cortex_plane.core.states import JobStatus

if TYPE_CHECKING:
    from cortex_plane.core.jobs import HistoryEntry, Job, JobId
    from cortex_plane.plane import Plane

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.5
GROWTH = 1.3


async def watch_to_the_end(plane: Plane, job_id: JobId, database_url: str | None, *, as_json: bool) -> int:
    """The exit code of `watch` and of `submit --wait`."""
    from cortex_plane.adapters.cli.output import console, document, print_json

    if as_json:
        job = await follow(plane, job_id, Silent())
        print_json(job)
        return _exit_code(job)
    try:
        with Lines() as lines:
            job = await follow(plane, job_id, lines)
    except asyncio.CancelledError:
        next_step("The job goes on. To follow it again", f"cortex jobs watch {job_id}", database_url, stderr=True)
        raise
    if job.output is not None:
        console().print(document(job.output), soft_wrap=True)
    if job.status is JobStatus.FAILED:
        next_step("To see why", f"cortex jobs show {job_id}", database_url)
    return _exit_code(job)


def _exit_code(job: Job) -> int:
    return 0 if job.status is JobStatus.COMPLETED else EXIT_JOB_FAILED


class Watcher(Protocol):
    def changed(self, story: Story, entry: HistoryEntry) -> None:
        """One more line of history."""

    def waiting(self, job: Job) -> None:
        """Nothing new."""


async def follow(plane: Plane, job_id: JobId, watcher: Watcher) -> Job:
    """Tells the watcher every change, in order, and returns the job when it has ended."""
    store = await plane.store
    told, revision, pause = 0, -1, FIRST_PAUSE_SECONDS
    while True:
        job = await store.jobs.get(job_id)
        if job is None:
            raise JobNotFound(job_id)
        if job.revision != revision:
            story = await Story.of(store, job_id)
            for entry in story.entries[told:]:
                watcher.changed(story, entry)
            told, revision, pause = len(story.entries), job.revision, FIRST_PAUSE_SECONDS
        if job.status.is_terminal:
            return job
        watcher.waiting(job)
        await asyncio.sleep(pause)
        pause = min(pause * GROWTH, LONGEST_PAUSE_SECONDS)


class Silent:
    """For --json: only the end counts."""

    def changed(self, story: Story, entry: HistoryEntry) -> None: ...

    def waiting(self, job: Job) -> None: ...


class Lines:
    """For people: a line for each change, and in a terminal what is going on right now."""

    def __init__(self) -> None:
        from cortex_plane.adapters.cli.output import console

        self._console = console()
        self._spinner = self._console.status("") if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._spinner is not None:
            self._spinner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def changed(self, story: Story, entry: HistoryEntry) -> None:
        from rich.text import Text

        from cortex_plane.adapters.cli.output import status, words

        line = Text(f"{entry.created_at.astimezone(UTC):%H:%M:%S}  ", "dim")
        line += status(entry.new_status)
        line.pad_right(max(0, 22 - len(line)))
        self._console.print(line + words(f"  {story.told(entry)}"), soft_wrap=True)

    def waiting(self, job: Job) -> None:
        if self._spinner is not None:
            self._spinner.update(_right_now(job, utc_now()))


def _right_now(job: Job, now: datetime) -> str:
    match job.status:
        case JobStatus.RUNNING:
            return f"running for {span(now - job.updated_at)}"
        case JobStatus.RETRY if job.next_retry_at and job.next_retry_at > now:
            return f"next try {ago(job.next_retry_at, now)}"
        case JobStatus.PENDING if job.run_at and job.run_at > now:
            return f"begins {ago(job.run_at, now)}"
        case JobStatus.WAITING_FOR_APPROVAL:
            return "waiting for a person to decide"
        case _:
            return f"waiting for a worker for {span(now - job.updated_at)}"
