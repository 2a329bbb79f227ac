"""What operators do with jobs: cancel, resume, retry, move, one by one or many at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from cortex_plane.errors import CortexError, InvalidInput, NotFound, Unavailable
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import IdPath, WithReason
from cortex_plane.http.lookups import IfMatch, etag, job_in, revision_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.http.problems import problem_of
from cortex_plane.ids import NewId
from cortex_plane.jobs.changes import cancel_job, release_job, retry_job
from cortex_plane.jobs.http_inputs import Cancel, CancelMany, Fork, Ids, Move, MoveMany, Priority, Settle
from cortex_plane.jobs.model import Job, JobId
from cortex_plane.people.roles import Caller, Role
from cortex_plane.queues.model import Place
from cortex_plane.queues.service import move_job, set_priority

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"])
bulk = APIRouter(prefix=f"{PREFIX}/bulk/jobs", tags=["jobs"])

Operator = Annotated[Caller, require(Role.OPERATOR)]


class Refusal(BaseModel):
    """`problem` is what the request for this one alone would have answered."""

    id: str
    problem: dict[str, Any]


class Outcome(BaseModel):
    """`done` has, in the order of the request, what came of each: the id itself, or that of its new job."""

    done: list[str]
    refused: list[Refusal]


@bulk.post("/cancel")
async def cancel_jobs(caller: Operator, plane: ThePlane, body: CancelMany) -> Outcome:
    """Cancels many jobs. Those that cannot be are told, and the others are cancelled all the same."""

    async def cancel(job_id: str) -> str:
        job = await job_in(plane, caller, job_id)
        return await plane.jobs.cancel(job.id, actor=caller.name, reason=body.reason, mode=body.mode)

    return await _each(body.ids, cancel)


@bulk.post("/resume")
async def resume_jobs(caller: Operator, plane: ThePlane, body: Ids) -> Outcome:
    """Goes on with many jobs that failed or were cancelled, each as a new job. Jobs that cannot be resumed are in `refused`."""

    async def resume(job_id: str) -> str:
        job = await job_in(plane, caller, job_id)
        return (await plane.jobs.resume(job.id, actor=caller.name)).id

    return await _each(body.ids, resume)


@bulk.post("/retry")
async def retry_jobs(caller: Operator, plane: ThePlane, body: Ids) -> Outcome:
    """Runs many finished jobs again, each as a new job. Those that cannot be are told."""

    async def retry(job_id: str) -> str:
        job = await job_in(plane, caller, job_id)
        return (await plane.jobs.retry(job.id, actor=caller.name)).id

    return await _each(body.ids, retry)


@bulk.post("/move")
async def move_jobs(caller: Operator, plane: ThePlane, body: MoveMany) -> Outcome:
    """Moves many waiting jobs: they then stand there one after the other, in the order of the request. Those that cannot be
    moved are told, and the others close ranks."""
    store = plane.store
    place, anchor = Place(body.place), None if body.anchor is None else (await job_in(plane, caller, body.anchor)).id

    async def move(job_id: str) -> str:
        nonlocal place, anchor
        job = await job_in(plane, caller, job_id)
        await move_job(store, job.id, place, anchor, actor=caller.name, reason=body.reason)
        if place in (Place.FRONT, Place.AFTER):
            place, anchor = Place.AFTER, job.id
        return job.id

    return await _each(body.ids, move)


@router.post("/{job_id}/cancel")
async def cancel_one_job(
    caller: Operator,
    plane: ThePlane,
    response: Response,
    job_id: IdPath,
    body: Cancel = Cancel(),  # noqa: B008 - it is frozen by nobody changing it
    if_match: IfMatch = None,
) -> Job:
    """Cancels a job that has not ended: at once, and its handler is stopped. One inside an open cleanup scope is asked to end
    (`cancel_requested_at`), and is CANCELLED when it has cleaned up, unless the mode is `kill`."""
    job = await job_in(plane, caller, job_id, if_match)
    await cancel_job(plane.store, job.id, actor=caller.name, reason=body.reason, mode=body.mode, revision=revision_in(if_match))
    return await _answer(plane, caller, response, job.id)


@router.post("/{job_id}/resume", status_code=201, response_model=Job)
async def resume_ended_job(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Goes on with a job that failed or was cancelled, from its checkpoint, as a new job that is linked to it."""
    job = await job_in(plane, caller, job_id)

    async def work(ids: NewId) -> Job:
        seen = revision_in(if_match)
        if seen is None:
            await job_in(plane, caller, job_id, if_match)
        return await job_in(plane, caller, (await plane.jobs.resume(job.id, actor=caller.name, ids=ids, revision=seen)).id)

    return await created(request, caller, idempotency_key, Job, work, location="/api/v1/jobs/{id}")


@router.post("/{job_id}/settle", status_code=201, response_model=Job)
async def settle_uncertain_call(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    body: Settle,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Says what became of an uncertain tool call, and goes on with the job, as a new job that is linked to it."""
    job = await job_in(plane, caller, job_id)

    async def work(ids: NewId) -> Job:
        seen = revision_in(if_match)
        if seen is None:
            await job_in(plane, caller, job_id, if_match)
        settled = await plane.jobs.settle(
            job.id, body.call, applied=body.applied, result=body.result, actor=caller.name, ids=ids, revision=seen
        )
        return await job_in(plane, caller, settled.id)

    return await created(request, caller, idempotency_key, Job, work, location="/api/v1/jobs/{id}")


@router.post("/{job_id}/release")
async def release_held_job(
    caller: Operator,
    plane: ThePlane,
    response: Response,
    job_id: IdPath,
    body: WithReason = WithReason(),  # noqa: B008 - it is frozen by nobody changing it
    if_match: IfMatch = None,
) -> Job:
    """Lets any worker try a job that is held because its code did not fit (`wait_reason` is code_changed)."""
    job = await job_in(plane, caller, job_id, if_match)
    await release_job(plane.store, job.id, actor=caller.name, reason=body.reason, revision=revision_in(if_match))
    return await _answer(plane, caller, response, job.id)


@router.post("/{job_id}/retry", status_code=201, response_model=Job)
async def retry_finished_job(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Runs a finished job again from the beginning, as a new job that is linked to it."""
    job = await job_in(plane, caller, job_id)

    async def work(ids: NewId) -> Job:
        seen = revision_in(if_match)
        if seen is None:
            await job_in(plane, caller, job_id, if_match)
        return await job_in(plane, caller, await retry_job(plane.store, ids, job.id, actor=caller.name, revision=seen))

    return await created(request, caller, idempotency_key, Job, work, location="/api/v1/jobs/{id}")


@router.post("/{job_id}/fork", status_code=201, response_model=Job)
async def fork_job(
    request: Request, caller: Operator, plane: ThePlane, job_id: IdPath, body: Fork, idempotency_key: IdempotencyKey = None
) -> Response:
    """Starts a job anew from one of its steps, as a new job."""
    job = await job_in(plane, caller, job_id)

    async def work(ids: NewId) -> Job:
        try:
            forked = await plane.checkpoints.fork(job.id, body.from_step, created_by=caller.name, ids=ids)
        except InvalidInput as error:  # Nothing is wrong with the request: there is no such step, or nothing recorded at all.
            raise NotFound(str(error)) from None
        return await job_in(plane, caller, forked.id)

    return await created(request, caller, idempotency_key, Job, work, location="/api/v1/jobs/{id}")


@router.post("/{job_id}/move")
async def move_waiting_job(
    caller: Operator, plane: ThePlane, response: Response, job_id: IdPath, body: Move, if_match: IfMatch = None
) -> Job:
    """Moves a waiting job within its queue."""
    job = await job_in(plane, caller, job_id, if_match)
    anchor = None if body.anchor is None else (await job_in(plane, caller, body.anchor)).id
    store, seen = plane.store, revision_in(if_match)
    await move_job(store, job.id, Place(body.place), anchor, actor=caller.name, reason=body.reason, revision=seen)
    return await _answer(plane, caller, response, job.id)


@router.put("/{job_id}/priority")
async def set_job_priority(
    caller: Operator, plane: ThePlane, response: Response, job_id: IdPath, body: Priority, if_match: IfMatch = None
) -> Job:
    """Changes the priority of a waiting job."""
    job = await job_in(plane, caller, job_id, if_match)
    store, seen = plane.store, revision_in(if_match)
    await set_priority(store, job.id, body.priority, actor=caller.name, reason=body.reason, revision=seen)
    return await _answer(plane, caller, response, job.id)


async def _answer(plane: ThePlane, caller: Caller, response: Response, job_id: JobId) -> Job:
    job = await job_in(plane, caller, job_id)
    response.headers.update(etag(job))
    return job


async def _each(ids: list[str], change: Callable[[str], Awaitable[str]]) -> Outcome:
    done: list[str] = []
    refused: list[Refusal] = []
    for job_id in dict.fromkeys(ids):
        try:
            done.append(await change(job_id))
        except Unavailable:
            raise
        except CortexError as error:
            refused.append(Refusal(id=job_id, problem=problem_of(error)))
    return Outcome(done=done, refused=refused)
