"""Jobs to be stored, as the one document that both stores take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.jobs import NewJob
from cortex_plane.ports.json_text import dumps, embedded


def submit(jobs: Sequence[NewJob]) -> Script[None]:
    """A job that is born with a checkpoint is given the results that this refers to."""
    yield from ask("jobs/submit", jobs=submission(jobs))
    for job in jobs:
        if job.checkpoint is not None:
            yield from ask("checkpoints/copy_blobs", job_id=job.id, copy_of=job.checkpoint.copy_blobs_of)


def submission(jobs: Sequence[NewJob]) -> str:
    return dumps([as_json(job) for job in jobs])


def as_json(job: NewJob) -> dict[str, Any]:
    document = {
        "id": job.id,
        "tenant_id": job.tenant_id,
        "agent_id": job.agent_id,
        "job_type": job.job_type,
        "queue": job.queue,
        "payload": embedded(job.payload),
        "priority": job.priority,
        "max_retries": job.max_retries,
        "retry_policy": job.retry_policy.to_json() if job.retry_policy else None,
        "run_at": job.run_at,
        "delay_seconds": job.delay_seconds,
        "timeout_seconds": job.timeout_seconds,
        "job_key": job.job_key,
        "serial_key": job.serial_key,
        "tags": list(job.tags),
        "created_by": job.created_by,
        "template_id": job.template_id,
        "group_id": job.group_id,
    }
    if job.session_id is not None:
        document["session_id"] = job.session_id
    if job.parent_id is not None:
        document |= {"parent_id": job.parent_id, "cancel_with_parent": job.cancel_with_parent}
    if job.schedule_id is not None or job.request_id is not None:
        document |= {"schedule_id": job.schedule_id, "request_id": job.request_id, "trace_id": job.trace_id}
    elif job.trace_id is not None:
        document["trace_id"] = job.trace_id
    if job.checkpoint is not None:
        document |= {"checkpoint_id": job.checkpoint.checkpoint_id, "checkpoint": embedded(job.checkpoint.document)}
    return document
