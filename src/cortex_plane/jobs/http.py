"""HTTP: /api/v1/jobs and /api/v1/runs, reading and submitting."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from cortex_plane.cursors import cursor_for
from cortex_plane.durable.details import JobDetails
from cortex_plane.errors import JobCancelled, JobFailed, NotFound, ResultNotReady, RunNotFound
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import ID_PATTERN, Cursor, IdPath, Limit, MomentQuery, NameQuery, Page, id_in, ids_in
from cortex_plane.http.lookups import etag, job_in, job_run_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.http_inputs import SubmitJob, SubmitJobs
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, JobSummary, Run, RunId, RunPlace
from cortex_plane.jobs.search import FoundJob, JobWish, search_jobs
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.people.http_sessions import check_sessions_of
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.queues.why import BlockedReason, explain_job
from cortex_plane.worker.service import find_worker

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"])
bulk = APIRouter(prefix=f"{PREFIX}/bulk/jobs", tags=["jobs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
Wait = Annotated[float, Query(ge=0, le=60, description="Answer when the job has ended, or after so many seconds.")]
Status = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "WAITING_FOR_APPROVAL", "RETRY", "CANCELLED"]


class JobIds(BaseModel):
    ids: list[JobId]


@router.post("", status_code=201, response_model=Job)
async def submit_job(
    request: Request,
    caller: Submitter,
    plane: ThePlane,
    body: SubmitJob,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submits a job."""

    await check_sessions_of(plane, caller, [body])

    async def work(ids: NewId) -> Job:
        [job_id] = await plane.jobs.submit_checked(
            [body.submission(caller)], ids=ids, traceparent=request.headers.get("traceparent")
        )
        await _wait(plane, job_id, wait)
        return await job_in(plane, caller, job_id)

    return await created(request, caller, idempotency_key, Job, work, location="/api/v1/jobs/{id}")


@bulk.post("", status_code=201, response_model=JobIds)
async def submit_jobs(
    request: Request, caller: Submitter, plane: ThePlane, body: SubmitJobs, idempotency_key: IdempotencyKey = None
) -> Response:
    """Submits many jobs, all of them or none, in this order."""

    await check_sessions_of(plane, caller, body.jobs)

    async def work(ids: NewId) -> JobIds:
        submissions = [job.submission(caller) for job in body.jobs]
        return JobIds(ids=await plane.jobs.submit_checked(submissions, ids=ids, traceparent=request.headers.get("traceparent")))

    return await created(request, caller, idempotency_key, JobIds, work)


@router.get("")
async def list_jobs(
    caller: Viewer,
    plane: ThePlane,
    status: Status | None = None,
    agent: NameQuery = None,
    queue: NameQuery = None,
    tag: NameQuery = None,
    text: Annotated[NameQuery, Query(description="Found anywhere in the payload; case is ignored.")] = None,
    since: MomentQuery = None,
    until: MomentQuery = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[FoundJob]:
    """Looks for jobs, newest first. What is rare is looked for in steps: a page may be short and still have a next one."""
    wish = JobWish(JobStatus(status) if status else None, agent, queue, tag, text, since, until)
    before = id_in("job", cursor)
    page = await search_jobs(
        plane.store,
        plane.directory,
        wish,
        tenant_id=caller.tenant_id,
        before=None if before is None else JobId(before),
        limit=limit,
    )
    return Page(items=page.jobs, next=cursor_for("job", page.next_before) if page.next_before else None)


@router.get("/{job_id}")
async def get_job(caller: Viewer, plane: ThePlane, response: Response, job_id: IdPath, wait: Wait = 0) -> Job:
    """One job: its data, where it stands, its result."""
    job = await job_in(plane, caller, job_id)
    if wait and not job.status.is_terminal:
        await _wait(plane, job.id, wait)
        job = await job_in(plane, caller, job_id)
    response.headers.update(etag(job))
    return job


@router.get("/{job_id}/history")
async def job_history(caller: Viewer, plane: ThePlane, job_id: IdPath) -> list[HistoryEntry]:
    """Every transition, oldest first: what it was, what it became, who or what caused it."""
    return await plane.jobs.history((await job_in(plane, caller, job_id)).id)


@router.get("/{job_id}/runs")
async def job_runs(caller: Viewer, plane: ThePlane, job_id: IdPath) -> list[Run]:
    """Its executions, oldest first."""
    return await plane.jobs.runs((await job_in(plane, caller, job_id)).id)


@router.get("/{job_id}/chain")
async def job_chain(caller: Viewer, plane: ThePlane, job_id: IdPath) -> list[JobSummary]:
    """The retry chain that it belongs to, from the first job to the last."""
    return await plane.jobs.chain((await job_in(plane, caller, job_id)).id)


@router.get("/{job_id}/why")
async def why_job_waits(caller: Viewer, plane: ThePlane, job_id: IdPath) -> list[BlockedReason]:
    """Why it is not running: every obstacle that there is."""
    job = await job_in(plane, caller, job_id)
    return await explain_job(plane.store, job, only_here=not caller.may(Role.VIEWER, everywhere=True))


@router.get("/{job_id}/details")
async def job_inside(caller: Viewer, plane: ThePlane, job_id: IdPath) -> JobDetails:
    """What is recorded of it besides its states: steps, tool calls, tokens, how far it is, its children. The checkpoint itself
    has an address of its own."""
    return replace(await plane.jobs.details(await job_in(plane, caller, job_id)), checkpoint=None)


@router.get("/{job_id}/checkpoint")
async def job_checkpoint(caller: Viewer, plane: ThePlane, job_id: IdPath) -> dict[str, Any]:
    """What is recorded of its progress, checked; large results are left out."""
    job = await job_in(plane, caller, job_id)
    if job.checkpoint_id is None:
        raise NotFound(f"Job {job_id} has no checkpoint: nothing durable has happened in it.")
    return dict(await plane.checkpoints.get(job.id))


async def _wait(plane: Plane, job_id: JobId, seconds: float) -> None:
    if seconds:
        try:
            await plane.jobs.result(job_id, seconds)
        except (JobFailed, JobCancelled, ResultNotReady):
            pass  # The job itself tells.


# -- runs --------------------------------------------------------------------------------------
# Runs: the executions of jobs.


runs_router = APIRouter(prefix=f"{PREFIX}/runs", tags=["runs"])
OfJob = Annotated[str | None, Query(pattern=ID_PATTERN, description="Its job; without it, only one of the newest is found.")]
RunState = Literal["RUNNING", "COMPLETED", "FAILED", "SKIPPED", "CANCELLED", "WAITING", "SLEEPING", "INTERRUPTED"]


@runs_router.get("")
async def list_runs(
    caller: Viewer,
    plane: ThePlane,
    status: Annotated[RunState | None, Query(description="RUNNING has not ended; all others have.")] = None,
    worker: Annotated[NameQuery, Query(description="The id or the name of the worker.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Run]:
    """Runs, those of the newest jobs first. What is rare is looked for in steps: a page may be short and still have a next one.
    Those of one job: /api/v1/jobs/{job_id}/runs"""
    store, place = plane.store, ids_in("run", cursor)
    page = await store.runs.page(
        tenant_id=caller.tenant_id,
        status=RunStatus(status) if status else None,
        worker_id=None if worker is None else (await find_worker(store, worker)).id,
        before=None if place is None else RunPlace(JobId(place[0]), RunId(place[1])),
        limit=limit,
    )
    return Page(items=page.runs, next=cursor_for("run", " ".join(page.next_before)) if page.next_before else None)


@runs_router.get("/{run_id}")
async def get_run(caller: Viewer, plane: ThePlane, run_id: IdPath, job: OfJob = None) -> Run:
    """One run."""
    if job is None:
        return await job_run_in(plane, caller, run_id)
    found = await plane.store.runs.get((await job_in(plane, caller, job)).id, RunId(run_id))
    if found is None:
        raise RunNotFound(run_id, of_a_job=True)
    return found
