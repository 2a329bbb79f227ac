"""Finds what a path names in the tenant of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel

from cortex_plane.approvals.model import ApprovalNotFound, ApprovalRequest
from cortex_plane.approvals.service import find_visible_approval
from cortex_plane.errors import InvalidInput, JobNotFound, NotFound, RevisionChanged, RunNotFound
from cortex_plane.errors import RunNotFound as JobRunNotFound
from cortex_plane.grants.model import ExecutionNotFound, ExecutionRequest, Grant, GrantId, GrantNotFound
from cortex_plane.groups.model import Group, GroupNotFound
from cortex_plane.http.auth import ThePlane, known, require
from cortex_plane.http.inputs import NamePath
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import ID_LENGTH, is_part_of_an_id
from cortex_plane.jobs.model import Job, JobId, Run
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.schedules.model import Schedule, ScheduleId, ScheduleNotFound
from cortex_plane.webhooks.model import Endpoint, EndpointNotFound

IfMatch = Annotated[
    str | None,
    Header(
        pattern='^([*]|(W/)?"[0-9]{1,18}r?")$',
        description="The ETag of the job as you saw it: a change is refused when it has moved on, also in this very moment.",
    ),
]


async def job_in(plane: Plane, caller: Caller, job_id: str, if_match: str | None = None) -> Job:
    job = await plane.store.jobs.get(JobId(job_id))
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
    for endpoint in await plane.store.webhooks.list(caller.tenant_id):
        if endpoint.id == endpoint_id:
            return endpoint
    raise EndpointNotFound(endpoint_id)


async def schedule_in(plane: Plane, caller: Caller, schedule_id: str, *, removed: bool = False) -> Schedule:
    """With `removed`, also one that was removed."""
    schedule = await plane.store.schedules.get(ScheduleId(schedule_id))
    if schedule is None or schedule.tenant_id != caller.tenant_id or (schedule.removed_at is not None and not removed):
        raise ScheduleNotFound(schedule_id)
    return schedule


async def grant_in(plane: Plane, caller: Caller, grant_id: str) -> Grant:
    grant = await plane.store.grants.get(GrantId(grant_id))
    if grant is None or grant.tenant_id != caller.tenant_id:
        raise GrantNotFound(grant_id)
    return grant


async def job_run_in(plane: Plane, caller: Caller, run_id: str) -> Run:
    """An execution of a job, by its own id alone: one that is open, or of the newest."""
    store = plane.store
    for job_id, found_id in await store.runs.find(run_id):
        job, run = await store.jobs.get(job_id), await store.runs.get(job_id, found_id)
        if job is not None and job.tenant_id == caller.tenant_id and run is not None:
            return run
    raise JobRunNotFound(run_id, of_a_job=False, by="?job=ID")


async def run_in(plane: Plane, caller: Caller, run_id: str) -> ExecutionRequest:
    run = await plane.store.requests.by_run(JobId(run_id))
    if run is None or run.tenant_id != caller.tenant_id:
        raise ExecutionNotFound(run_id)
    return run


# -- ids ---------------------------------------------------------------------------------------
# Whole ids for people who type the first part of one, among what belongs to their tenant.


router = APIRouter(prefix=PREFIX, tags=["ids"])

Anyone = Annotated[Caller, known()]
Viewer = Annotated[Caller, require(Role.VIEWER)]
Kind = Literal["job", "run", "group", "grant", "schedule"]
MOST_FOUND = 5
MOST_APPROVALS = 100
"""So many of the newest are looked at: among them those that others are asked for, of which nobody is told."""


class FoundId(BaseModel):
    id: str


@router.get("/ids/{kind}/{beginning}")
async def find_id(caller: Viewer, plane: ThePlane, kind: Kind, beginning: NamePath) -> FoundId:
    """The id that begins so, if exactly one does. A schedule is found by its name, too."""
    store, here = plane.store, partial(_here, caller)
    match kind:
        case "job":
            prefix = _prefix(beginning, "a job id")
            return await _one(kind, prefix, here(store.jobs.find), lambda one: job_in(plane, caller, one), JobNotFound)
        case "run":
            prefix = _prefix(beginning, "the id of a run")
            return await _one(kind, prefix, partial(_runs, plane, caller), lambda one: job_run_in(plane, caller, one), _no_run)
        case "group":
            prefix = _prefix(beginning, "a group id")
            return await _one(kind, prefix, here(store.groups.find), lambda one: group_in(plane, caller, one), GroupNotFound)
        case "grant":
            prefix = _prefix(beginning, "a grant id")
            return await _one(kind, prefix, here(store.grants.find), lambda one: grant_in(plane, caller, one), GrantNotFound)
        case "schedule":
            return FoundId(id=(await plane.schedules.get(beginning, tenant=caller.tenant)).id)


@router.get("/approval-ids/{beginning}")
async def find_approval_id(request: Request, caller: Anyone, plane: ThePlane, beginning: NamePath) -> FoundId:
    """The id of the approval that begins so, among those that you may see."""
    store, only_here = plane.store, "authorization" in request.headers

    async def seen(one: str) -> ApprovalRequest:
        return await find_visible_approval(store, caller, one, only_here=only_here)

    prefix = _prefix(beginning, "the id of an approval")
    return await _one("approval", prefix, partial(store.approvals.find, limit=MOST_APPROVALS), seen, ApprovalNotFound)


def _here(caller: Caller, find: Callable[..., Awaitable[Sequence[Any]]]) -> Callable[[str], Awaitable[Sequence[Any]]]:
    return partial(find, tenant_id=caller.tenant_id)


async def _runs(plane: Plane, caller: Caller, prefix: str) -> list[str]:
    return [run_id for _, run_id in await plane.store.runs.find(prefix, caller.tenant_id)]


def _no_run(prefix: str) -> NotFound:
    return RunNotFound(prefix, of_a_job=False, by="?job=ID")


def _prefix(beginning: str, what: str) -> str:
    prefix = beginning.strip().lower()
    if not is_part_of_an_id(prefix):
        raise InvalidInput(f"{beginning!r:.60} is not {what}, nor the first four or more characters of one.", field="id")
    return prefix


async def _one(
    kind: str,
    prefix: str,
    find: Callable[[str], Awaitable[Sequence[Any]]],
    look: Callable[[str], Awaitable[Any]],
    missing: Callable[[str], NotFound],
) -> FoundId:
    found = [prefix] if len(prefix) == ID_LENGTH else list(await find(prefix))
    mine: list[str] = []
    for one in found:
        try:
            mine.append((await look(one)).id)
        except NotFound:
            continue
        if len(mine) == MOST_FOUND:
            break
    if len(mine) > 1:
        matches = f"{len(mine)} or more {kind}s: {', '.join(mine[:3])}, …"
        raise InvalidInput(f"{prefix} matches {matches} Give more characters of the id.", field="id")
    if not mine:
        raise missing(prefix)
    return FoundId(id=mine[0])
