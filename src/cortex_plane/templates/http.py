"""Job definitions that are stored once and submitted often."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Name, NamePath
from cortex_plane.http.lookups import job_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.fields import PRIORITY_LIMIT, TAG_LIMIT
from cortex_plane.jobs.http_inputs import LastingFields, SubmissionFields
from cortex_plane.jobs.model import Job, KeyMode
from cortex_plane.people.http_sessions import session_of
from cortex_plane.people.roles import Caller, Role
from cortex_plane.templates.model import Template
from cortex_plane.templates.service import submit_from_template

router = APIRouter(prefix=f"{PREFIX}/templates", tags=["templates"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]


class SaveTemplate(LastingFields):
    agent: Name = Field(examples=["release-bot"])
    params: dict[str, Any] = Field(default={}, description="The arguments of its jobs.")


class SubmitTemplate(SubmissionFields):
    """What is not given is as the template says."""

    overrides: dict[str, Any] = Field(default={}, description="Replace keys of its params.", examples=[{"version": "1.4.0"}])
    queue: Name | None = Field(default=None, description="Otherwise the template's.")
    priority: int | None = Field(default=None, ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT)  # type: ignore[assignment]
    key_mode: KeyMode | None = None  # type: ignore[assignment]
    tags: list[Name] | None = Field(default=None, max_length=TAG_LIMIT)  # type: ignore[assignment]


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
    return await plane.templates.save(name, body.agent, body.params, **body.options(caller))


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
