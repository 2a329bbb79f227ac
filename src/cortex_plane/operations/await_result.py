"""Waits until a job has ended and answers with its output, or raises what became of it."""

from __future__ import annotations

from typing import Any

from cortex_plane.core.errors import JobCancelled, JobFailed, JobNotFound, ResultNotReady
from cortex_plane.core.jobs import JobId
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store

FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.25
GROWTH = 1.5


async def await_result(store: Store, clock: Clock, job_id: JobId, timeout_seconds: float | None = None) -> Any:
    until = None if timeout_seconds is None else clock.elapsed() + timeout_seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        found = await store.jobs.status(job_id)
        if found is None:
            raise JobNotFound(job_id)
        status, output, error, message = found
        match status:
            case JobStatus.COMPLETED:
                return output
            case JobStatus.FAILED:
                raise JobFailed(job_id, message or "failed", error)
            case JobStatus.CANCELLED:
                raise JobCancelled(job_id)
        if until is not None and clock.elapsed() + pause > until:
            raise ResultNotReady(job_id, status, timeout_seconds or 0.0)
        await clock.sleep(pause)
        pause = min(pause * GROWTH, LONGEST_PAUSE_SECONDS)
