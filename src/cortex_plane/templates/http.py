"""Job definitions that are stored once and submitted often."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Id, Input, Moment, Name, NamePath
from cortex_plane.http.lookups import job_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.fields import PRIORITY_LIMIT, TAG_LIMIT
from cortex_plane.jobs.http_inputs import ONE_TIME_ONLY, ListLimit, RetryInput, Seconds, deadline_in
from cortex_plane.jobs.model import Job, KeyMode
from cortex_plane.jobs.retry import MAX_RETRIES_LIMIT
from cortex_plane.people.http_sessions import session_of
from cortex_plane.people.roles import Caller, Role
from cortex_plane.templates.model import Template
from cortex_plane.templates.service import submit_from_template

router = APIRouter(prefix=f"{PREFIX}/templates", tags=["templates"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]


class SaveTemplate(Input):
    agent: Name = Field(examples=["release-bot"])
    params: dict[str, Any] = Field(default={}, description="The arguments of its jobs.")
    queue: Name | None = None
    priority: int = Field(default=0, ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT)
    max_retries: int | None = Field(default=None, ge=0, le=MAX_RETRIES_LIMIT)
    retry: RetryInput | None = None
    run_timeout_seconds: ListLimit | None = Field(default=None, description="How long one run may take.")
    deadline_seconds: ListLimit | None = Field(default=None, description="How long after its submission a job must have ended.")
    tags: list[Name] = Field(default=[], max_length=TAG_LIMIT)


class SubmitTemplate(Input):
    """What is not given is as the template says."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=ONE_TIME_ONLY)

    overrides: dict[str, Any] = Field(default={}, description="Replace keys of its params.", examples=[{"version": "1.4.0"}])
    queue: Name | None = None
    priority: int | None = Field(default=None, ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT)
    run_at: Moment | None = None
    delay_seconds: Seconds | None = None
    job_key: Name | None = None
    key_mode: KeyMode | None = None
    serial_key: Name | None = None
    tags: list[Name] | None = Field(default=None, max_length=TAG_LIMIT)
    max_retries: int | None = Field(default=None, ge=0, le=MAX_RETRIES_LIMIT)
    run_timeout_seconds: ListLimit | None = None
    deadline_at: Moment | None = None
    deadline_seconds: ListLimit | None = None
    session: Id | None = Field(
        default=None, description="The session that it comes out of: yours, or for operators any of the tenant."
    )

    def options(self, caller: Caller) -> dict[str, Any]:
        renamed = ("overrides", "delay_seconds", "run_timeout_seconds", "deadline_at", "deadline_seconds")
        given = {name: value for name, value in self if value is not None and name not in renamed}
        if self.delay_seconds is not None:
            given["delay"] = self.delay_seconds
        if self.run_timeout_seconds is not None:
            given["run_timeout"] = self.run_timeout_seconds
        if (deadline := deadline_in(self.deadline_at, self.deadline_seconds)) is not None:
            given["deadline"] = deadline
        return {**given, "tenant": caller.tenant, "created_by": caller.name}


@router.get("")
async def list_templates(caller: Viewer, plane: ThePlane) -> list[Template]:
    """By name."""
    return await plane.templates.list(tenant=caller.tenant)


@router.get("/{name}")
async def get_template(caller: Viewer, plane: ThePlane, name: NamePath) -> Template:
    """One template."""
    return await plane.templates.get(name, tenant=caller.tenant)


@router.put("/{name}")
async def save_template(caller: Operator, plane: ThePlane, name: NamePath, body: SaveTemplate) -> Template:
    """Saves it under this name, or changes it: then its version is counted up. The same again changes nothing."""
    return await plane.templates.save(
        name,
        body.agent,
        body.params,
        queue=body.queue,
        priority=body.priority,
        max_retries=body.max_retries,
        retry=body.retry.policy() if body.retry else None,
        run_timeout=body.run_timeout_seconds,
        deadline=body.deadline_seconds,
        tags=body.tags,
        tenant=caller.tenant,
        created_by=caller.name,
    )


@router.delete("/{name}", status_code=204, response_model=None)
async def remove_template(caller: Operator, plane: ThePlane, name: NamePath) -> None:
    """Removes a template. Its jobs keep everything that it said."""
    await plane.templates.remove(name, tenant=caller.tenant, actor=caller.name)


@router.post("/{name}/jobs", status_code=201, response_model=Job)
async def submit_template(
    request: Request,
    caller: Submitter,
    plane: ThePlane,
    name: NamePath,
    body: SubmitTemplate,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submits a job as the template says now."""
    if body.session is not None:
        await session_of(plane, caller, body.session)

    async def work(ids: NewId) -> Job:
        with plane.submitting([f"template:{name}"], request.headers.get("traceparent")) as trace:
            job_id = await submit_from_template(
                plane.store,
                plane.directory,
                ids,
                name,
                body.overrides,
                body.options(caller),
                payload_limit_bytes=plane.settings.payload_limit_bytes,
                trace=trace,
            )
        return await job_in(plane, caller, job_id)

    return await created(request, caller, idempotency_key, Job, work, location="/api/v1/jobs/{id}")
