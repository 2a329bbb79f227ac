"""Saves a job definition under a name. What would be refused when a job is submitted is refused here already."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.templates import NewTemplate, Template, TemplateId
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.names import checked_name
from cortex_plane.operations.submit_jobs import PAYLOAD_LIMIT_BYTES, Submission, checked
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store

OF_ONE_JOB = ("run_at", "delay", "job_key", "serial_key")


async def save_template(
    store: Store,
    directory: Directory,
    new_id: NewId,
    name: str,
    asked: Submission,
    *,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
) -> Template:
    """`asked` is what its jobs will be; `asked.created_by` is who saves it."""
    for field in OF_ONE_JOB:
        if getattr(asked, field) is not None:
            raise InvalidInput(f"{field} belongs to a single job. Give it when you submit from the template.", field=field)
    job = await checked(directory, new_id, asked, payload_limit_bytes)
    template = NewTemplate(
        id=TemplateId(new_id()),
        tenant_id=job.tenant_id,
        name=checked_name(name),
        job_type=job.job_type,
        params=job.payload,
        queue=asked.queue,
        priority=job.priority,
        max_retries=asked.max_retries,
        retry_policy=job.retry_policy,
        timeout_seconds=job.timeout_seconds,
        tags=job.tags,
        created_by=job.created_by,
    )
    return await store.templates.put(template, asked.created_by)
