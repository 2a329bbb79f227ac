"""Finds a job by the beginning of its id; waits for a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.errors import AmbiguousJob, InvalidInput, JobCancelled, JobFailed, JobNotFound, ResultNotReady
from cortex_plane.ids import DASHES, ID_LENGTH, PART_OF_AN_ID
from cortex_plane.jobs.model import Job, JobId
from cortex_plane.jobs.states import JobStatus

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.stores import Store


async def find_job(store: Store, id_or_prefix: str) -> Job:
    job_id = await find_job_id(store, id_or_prefix)
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job


async def find_job_id(store: Store, id_or_prefix: str) -> JobId:
    prefix = id_or_prefix.strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not a job id, nor the first four or more characters of one.", field="id")
    if len(prefix) == ID_LENGTH:
        return JobId(prefix)
    found = await store.jobs.find(prefix)
    if not found:
        raise JobNotFound(prefix)
    if len(found) > 1:
        raise AmbiguousJob(prefix, found)
    return found[0]


# -- await result ------------------------------------------------------------------------------
# Waits until a job has ended and answers with its output, or raises what became of it.


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
