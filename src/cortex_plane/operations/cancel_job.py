"""Cancels a job that has not ended. A running one moves at once; its worker is told and stops the handler."""

from __future__ import annotations

from cortex_plane.core.errors import AlreadyFinished, Denied, JobNotFound
from cortex_plane.core.jobs import INTERNAL_QUEUE, Job, JobId
from cortex_plane.ports.store import Store


async def cancel_job(store: Store, job_id: JobId, *, actor: str | None = None, reason: str | None = None) -> None:
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    _refuse_the_planes_own(job)
    if await store.jobs.cancel(job_id, actor, reason):
        return
    status = await store.jobs.status(job_id)
    if status is None:
        raise JobNotFound(job_id)
    raise AlreadyFinished(job_id, status[0])


def _refuse_the_planes_own(job: Job) -> None:
    """Without it, what it looks after would rest for ever: a group is not moved on, an endpoint is not told."""
    if job.queue == INTERNAL_QUEUE:
        raise Denied(
            f"Job {job.id} ({job.job_type}) belongs to the plane itself and is not cancelled by hand. "
            "Cancel what it works for: cortex groups cancel ID, cortex webhooks disable ID"
        )
