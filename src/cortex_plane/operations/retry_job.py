"""An operator's retry: terminal states do not move, so a finished job gets a linked successor, at the end of its chain."""

from __future__ import annotations

from cortex_plane.core.errors import JobNotFound, StillRunning
from cortex_plane.core.jobs import INTERNAL_QUEUE, JobId
from cortex_plane.operations.check_budgets import check_budgets_of
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def retry_job(store: Store, new_id: NewId, job_id: JobId, *, actor: str | None = None) -> JobId:
    successor = JobId(new_id())
    end = await store.jobs.chain_end(job_id)
    if end is None:
        raise JobNotFound(job_id)
    last_id, status = end
    if status.is_terminal:
        await _check_budgets(store, last_id)
        if await store.jobs.retry(last_id, successor, actor):
            return successor
    return await _why_not(store, job_id, successor)


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
