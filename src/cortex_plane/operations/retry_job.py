"""An operator's retry: terminal states do not move, so a finished job gets a linked successor, at the end of its chain."""

from __future__ import annotations

from cortex_plane.core.errors import JobNotFound, RevisionChanged, StillRunning
from cortex_plane.core.jobs import INTERNAL_QUEUE, JobId
from cortex_plane.operations.check_budgets import check_budgets_of
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def retry_job(
    store: Store, new_id: NewId, job_id: JobId, *, actor: str | None = None, revision: int | None = None
) -> JobId:
    """With a revision, only while the job is at it and has no retry."""
    successor = JobId(new_id())
    if await store.jobs.status(successor) is not None:
        return successor  # It was made before, and only the answer was lost.
    if revision is not None:
        await _check_revision(store, job_id, revision)
    end = await store.jobs.chain_end(job_id)
    if end is None:
        raise JobNotFound(job_id)
    last_id, status = end
    if status.is_terminal and (revision is None or last_id == job_id):
        await _check_budgets(store, last_id)
        if await store.jobs.retry(last_id, successor, actor):
            return successor
    return await _why_not(store, job_id, successor)


async def _check_revision(store: Store, job_id: JobId, revision: int) -> None:
    """What has ended changes no more: a job that has ended at this revision is at it for ever, and has at most one retry."""
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    if job.revision != revision or job.retried_as is not None:
        raise RevisionChanged(job_id, job.revision)
    if not job.status.is_terminal:
        raise StillRunning(job_id, job_id, job.status)


async def _check_budgets(store: Store, job_id: JobId) -> None:
    """What the plane does by itself, such as telling others that a job ended, costs nobody anything."""
    job = await store.jobs.get(job_id)
    if job is not None and job.queue != INTERNAL_QUEUE:
        await check_budgets_of(store, job)


async def _why_not(store: Store, job_id: JobId, successor: JobId) -> JobId:
    """It has not ended, or somebody else was faster; or our own insert did apply and only its answer was lost."""
    end = await store.jobs.chain_end(job_id)
    if end is None:
        raise JobNotFound(job_id)
    if end[0] == successor:
        return successor
    raise StillRunning(job_id, end[0], end[1])
