"""Submits a child of a running job, under an id that was durable before: doing so again changes nothing."""

from __future__ import annotations

from dataclasses import replace

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import Claimed, JobId
from cortex_plane.operations.check_budgets import check_budgets
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.submit_jobs import Submission, checked
from cortex_plane.ports.store import Store


async def submit_child(store: Store, directory: Directory, parent: Claimed, asked: Submission, child_id: JobId) -> None:
    """A child belongs to its parent's tenant."""
    if asked.job_key is not None:
        raise InvalidInput("A child job takes no job_key: its parent waits for exactly this job.", field="job_key")
    child = replace(await checked(directory, lambda: child_id, asked), tenant_id=parent.tenant_id, parent_id=parent.job_id)
    await check_budgets(store, directory, [child])
    await store.jobs.submit([child])
