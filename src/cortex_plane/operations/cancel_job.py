"""Cancels a job that has not ended. A running one moves at once; its worker is told and stops the handler."""

from __future__ import annotations

from cortex_plane.core.errors import AlreadyFinished, JobNotFound
from cortex_plane.core.jobs import JobId
from cortex_plane.ports.store import Store


async def cancel_job(store: Store, job_id: JobId, *, actor: str | None = None, reason: str | None = None) -> None:
    if await store.jobs.cancel(job_id, actor, reason):
        return
    status = await store.jobs.status(job_id)
    if status is None:
        raise JobNotFound(job_id)
    raise AlreadyFinished(job_id, status[0])
