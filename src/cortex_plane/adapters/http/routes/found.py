"""Finds what a request names, in the caller's own tenant: what belongs to others is, for the caller, not there."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from cortex_plane.adapters.http.errors import RevisionChanged
from cortex_plane.core.access import Caller
from cortex_plane.core.errors import JobNotFound
from cortex_plane.core.groups import Group, GroupNotFound
from cortex_plane.core.jobs import Job, JobId
from cortex_plane.core.webhooks import Endpoint, EndpointNotFound
from cortex_plane.plane import Plane

IfMatch = Annotated[
    str | None,
    Header(
        pattern='^([*]|(W/)?"[0-9]{1,18}")$',
        description="The ETag of the job as you saw it: a change is refused when it has moved on.",
    ),
]


async def job_in(plane: Plane, caller: Caller, job_id: str, if_match: str | None = None) -> Job:
    job = await (await plane.store).jobs.get(JobId(job_id))
    if job is None or job.tenant_id != caller.tenant_id:
        raise JobNotFound(job_id)
    if if_match is not None and if_match != "*" and _revision(if_match) != job.revision:
        raise RevisionChanged(job_id, job.revision)
    return job


def etag(job: Job) -> dict[str, str]:
    return {"ETag": f'"{job.revision}"'}


def _revision(if_match: str) -> int:
    return int(if_match.removeprefix("W/").strip('"'))


async def group_in(plane: Plane, caller: Caller, group_id: str) -> Group:
    group = await plane.groups.get(group_id)
    if group.tenant_id != caller.tenant_id:
        raise GroupNotFound(group_id)
    return group


async def endpoint_in(plane: Plane, caller: Caller, endpoint_id: str) -> Endpoint:
    for endpoint in await (await plane.store).webhooks.list(caller.tenant_id):
        if endpoint.id == endpoint_id:
            return endpoint
    raise EndpointNotFound(endpoint_id)
