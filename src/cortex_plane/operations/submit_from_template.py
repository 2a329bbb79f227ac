"""Submits a job that a template describes. The job takes a copy: what becomes of the template later does not matter to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import DEFAULT_TENANT, JobId
from cortex_plane.core.templates import Template
from cortex_plane.operations.check_budgets import check_budgets
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_template import find_template
from cortex_plane.operations.submit_jobs import PAYLOAD_LIMIT_BYTES, Submission, checked
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def submit_from_template(
    store: Store,
    directory: Directory,
    new_id: NewId,
    name: str,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    connection: Any = None,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
) -> JobId:
    """`overrides` replace keys of the template's params; `options` are fields of a Submission, and win over the template."""
    asked = dict(options or {})
    template = await find_template(store, directory, name, tenant=asked.pop("tenant", DEFAULT_TENANT))
    submission = submission_from(template, overrides, asked)
    job = await checked(directory, new_id, submission, payload_limit_bytes)
    job = replace(job, tenant_id=template.tenant_id, template_id=template.id)
    await check_budgets(store, directory, [job])
    [job_id] = await store.jobs.submit([job], connection)
    return job_id


def submission_from(template: Template, overrides: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Submission:
    """A pure overlay; a caller's retry policy also says how often."""
    if overrides is not None and not isinstance(overrides, Mapping):
        raise InvalidInput(
            f"overrides must be a dict of the agent's arguments by name, not a {type(overrides).__name__}.", field="overrides"
        )
    own: dict[str, Any] = {
        "queue": template.queue,
        "priority": template.priority,
        "max_retries": template.max_retries if "retry" not in options else None,
        "retry": template.retry_policy,
        "timeout": template.timeout_seconds,
        "tags": template.tags,
    }
    return Submission(template.job_type, {**template.params, **(overrides or {})}, **{**own, **options})
