"""Cancels a job that has not ended. A running one moves at once; its worker is told and stops the handler."""

from __future__ import annotations

from cortex_plane.core.errors import AlreadyFinished, Denied, JobNotFound, RevisionChanged
from cortex_plane.core.jobs import INTERNAL_QUEUE, Job, JobId
from cortex_plane.ports.store import Store


async def cancel_job(
    store: Store, job_id: JobId, *, actor: str | None = None, reason: str | None = None, revision: int | None = None
) -> None:
    """With a revision, only while the job is at it."""
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    _refuse_the_planes_own(job)
    if await store.jobs.cancel(job_id, actor, reason, revision):
        return
    now = await store.jobs.get(job_id)
    if now is None:
        raise JobNotFound(job_id)
    if revision is not None and now.revision != revision:
        raise RevisionChanged(job_id, now.revision)
    raise AlreadyFinished(job_id, now.status)


def _refuse_the_planes_own(job: Job) -> None:
    """Without it, what it looks after would rest for ever: a group is not moved on, an endpoint is not told."""
    if job.queue == INTERNAL_QUEUE:
        raise Denied(
            f"Job {job.id} ({job.job_type}) belongs to the plane itself and is not cancelled by hand. "
            "Cancel what it works for: cortex groups cancel ID, cortex webhooks disable ID"
        )
