"""Sends a message again whose delivery ended: a new job for the same event, under the same event id."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import JobId
from cortex_plane.core.webhooks import WEBHOOK_AGENT
from cortex_plane.operations.find_job import find_job
from cortex_plane.operations.retry_job import retry_job
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def redeliver_webhook(store: Store, new_id: NewId, id_or_prefix: str, *, actor: str | None = None) -> JobId:
    job = await find_job(store, id_or_prefix)
    if job.job_type != WEBHOOK_AGENT:
        raise InvalidInput(
            f"Job {job.id} is not the delivery of a webhook. To see those that failed: cortex webhooks dead", field="id"
        )
    return await retry_job(store, new_id, job.id, actor=actor)
