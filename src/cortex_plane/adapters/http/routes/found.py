"""Finds what a request names, in the caller's own tenant: what belongs to others is, for the caller, not there."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from cortex_plane.core.access import Caller
from cortex_plane.core.errors import JobNotFound, RevisionChanged
from cortex_plane.core.errors import RunNotFound as JobRunNotFound
from cortex_plane.core.execution import ExecutionRequest, RunNotFound
from cortex_plane.core.grants import Grant, GrantId, GrantNotFound
from cortex_plane.core.groups import Group, GroupNotFound
from cortex_plane.core.jobs import Job, JobId, Run
from cortex_plane.core.schedules import Schedule, ScheduleId, ScheduleNotFound
from cortex_plane.core.webhooks import Endpoint, EndpointNotFound
from cortex_plane.plane import Plane

IfMatch = Annotated[
    str | None,
    Header(
        pattern='^([*]|(W/)?"[0-9]{1,18}r?")$',
        description="The ETag of the job as you saw it: a change is refused when it has moved on, also in this very moment.",
    ),
]


async def job_in(plane: Plane, caller: Caller, job_id: str, if_match: str | None = None) -> Job:
    job = await (await plane.store).jobs.get(JobId(job_id))
    if job is None or job.tenant_id != caller.tenant_id:
        raise JobNotFound(job_id)
    if if_match is not None and if_match != "*" and if_match.removeprefix("W/") != etag(job)["ETag"]:
        raise RevisionChanged(job_id, job.revision)
    return job


def etag(job: Job) -> dict[str, str]:
    """Of what has ended, only that it is retried can change: that is no revision of its own, and so it is told apart."""
    return {"ETag": f'"{job.revision}{"r" if job.retried_as else ""}"'}


def revision_in(if_match: str | None) -> int | None:
    """What the statement that makes the change must still find; None when the caller does not mind."""
    seen = (if_match or "*").removeprefix("W/").strip('"')
    return int(seen) if seen.isdigit() else None


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


async def schedule_in(plane: Plane, caller: Caller, schedule_id: str) -> Schedule:
    schedule = await (await plane.store).schedules.get(ScheduleId(schedule_id))
    if schedule is None or schedule.tenant_id != caller.tenant_id:
        raise ScheduleNotFound(schedule_id)
    return schedule


async def grant_in(plane: Plane, caller: Caller, grant_id: str) -> Grant:
    grant = await (await plane.store).grants.get(GrantId(grant_id))
    if grant is None or grant.tenant_id != caller.tenant_id:
        raise GrantNotFound(grant_id)
    return grant


async def job_run_in(plane: Plane, caller: Caller, run_id: str) -> Run:
    """An execution of a job, by its own id alone: one that is open, or of the newest."""
    store = await plane.store
    for job_id, found_id in await store.runs.find(run_id):
        job, run = await store.jobs.get(job_id), await store.runs.get(job_id, found_id)
        if job is not None and job.tenant_id == caller.tenant_id and run is not None:
            return run
    raise JobRunNotFound(run_id, of_a_job=False, by="?job=ID")


async def run_in(plane: Plane, caller: Caller, run_id: str) -> ExecutionRequest:
    run = await (await plane.store).requests.by_run(JobId(run_id))
    if run is None or run.tenant_id != caller.tenant_id:
        raise RunNotFound(run_id)
    return run
