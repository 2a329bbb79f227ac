"""What operators do with jobs from a page: the same operations as behind the API."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.dashboard.flash import Note, go_to, told
from cortex_plane.errors import CortexError, InvalidInput, Unavailable
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.inputs import Id, IdPath
from cortex_plane.http.lookups import job_in
from cortex_plane.jobs.changes import CancelMode
from cortex_plane.jobs.fields import PRIORITY_LIMIT, Submission
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.queues.model import Place
from cortex_plane.queues.service import move_job

router = APIRouter(include_in_schema=False)

Operator = Annotated[Caller, require(Role.OPERATOR)]
Reason = Annotated[str, Form(max_length=2_000)]
Back = Annotated[str, Form(max_length=2_000)]
MOST_AT_ONCE = 200
DONE = {"cancel": "Cancelled", "resume": "Resumed", "retry": "Submitted again"}


def back_to_job(request: Request, job_id: str) -> str:
    tenant = request.query_params.get("tenant")
    return f"/jobs/{job_id}" + (f"?tenant={tenant}" if tenant else "")


@router.post("/jobs")
async def submit(
    request: Request,
    caller: Annotated[Caller, require(Role.SUBMITTER)],
    plane: ThePlane,
    agent: Annotated[str, Form(min_length=1, max_length=200)],
    payload: Annotated[str, Form(max_length=1_000_000)] = "",
    queue: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Shows the new job."""
    try:
        [job_id] = await plane.jobs.submit_checked(
            [Submission(agent, _payload(payload), queue=queue or None, tenant=caller.tenant, created_by=caller.name)]
        )
    except Unavailable:
        raise
    except CortexError as error:
        return go_to("/jobs", Note("refused", str(error)))
    return go_to(back_to_job(request, job_id), Note("done", "Submitted."))


def _payload(text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidInput(f'The payload is not JSON: {error}. Write {{"name": "value"}}.', field="payload") from None
    if not isinstance(payload, dict):
        raise InvalidInput(
            'The payload must be an object: the agent\'s arguments by name, such as {"name": "Ada"}.', field="payload"
        )
    return payload


@router.post("/jobs/many")
async def change_many(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    action: Annotated[Literal["cancel", "resume", "retry"], Form()],
    ids: Annotated[list[Id] | None, Form(max_length=MOST_AT_ONCE)] = None,
    reason: Reason = "",
    back: Back = "/jobs",
) -> Response:
    """Each by itself: one that cannot be changed does not keep the others from it."""
    if not ids:
        return go_to(back, Note("refused", "No job was chosen. Tick those that you mean."))
    refused: list[str] = []
    for job_id in dict.fromkeys(ids):
        try:
            await _change(plane, caller, action, job_id, reason)
        except Unavailable:
            raise
        except CortexError as error:
            refused.append(str(error))
    done = len(set(ids)) - len(refused)
    said = f"{DONE[action]} {done} {'job' if done == 1 else 'jobs'}."
    if refused:
        said += f" {len(refused)} could not be: {refused[0]}"
    return go_to(back, Note("refused" if refused else "done", said))


async def _change(plane: Plane, caller: Caller, action: str, job_id: str, reason: str) -> None:
    job = await job_in(plane, caller, job_id)
    match action:
        case "cancel":
            await plane.jobs.cancel(job.id, actor=caller.name, reason=reason or None)
        case "resume":
            await plane.jobs.resume(job.id, actor=caller.name)
        case _:
            await plane.jobs.retry(job.id, actor=caller.name)


@router.post("/jobs/{job_id}/cancel")
async def cancel(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    reason: Reason = "",
    mode: Annotated[CancelMode, Form()] = "cleanup",
) -> Response:
    async def work() -> str:
        job = await job_in(plane, caller, job_id)
        await plane.jobs.cancel(job.id, actor=caller.name, reason=reason or None, mode=mode)
        now = await job_in(plane, caller, job_id)
        return "Cancelled." if now.status.is_terminal else "Asked to end. It cleans up first."

    return await told(back_to_job(request, job_id), work())


@router.post("/jobs/{job_id}/resume")
async def resume(request: Request, caller: Operator, plane: ThePlane, job_id: IdPath) -> Response:
    """Shows the new job."""
    job = await job_in(plane, caller, job_id)
    said = "This job goes on where the one before it stopped."
    return await _new_job(request, job.id, plane.jobs.resume(job.id, actor=caller.name), said)


@router.post("/jobs/{job_id}/settle")
async def settle(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    call: Annotated[str, Form(max_length=2_000)],
    became: Annotated[Literal["applied", "not_applied"], Form()],
    result: Annotated[str, Form(max_length=100_000)] = "",
) -> Response:
    """Shows the new job."""
    job = await job_in(plane, caller, job_id)
    try:
        value = json.loads(result) if result.strip() and became == "applied" else None
    except ValueError:
        return go_to(back_to_job(request, job.id), Note("refused", "The result must be JSON, or empty."))
    work = plane.jobs.settle(job.id, call, applied=became == "applied", result=value, actor=caller.name)
    return await _new_job(request, job.id, work, "This job goes on after the call was settled.")


@router.post("/jobs/{job_id}/retry")
async def retry(request: Request, caller: Operator, plane: ThePlane, job_id: IdPath) -> Response:
    """Shows the new job."""
    job = await job_in(plane, caller, job_id)
    said = "This is the new job; it is linked to the one before."
    return await _new_job(request, job.id, plane.jobs.retry(job.id, actor=caller.name), said)


async def _new_job(request: Request, job_id: str, work: Awaitable[JobHandle[Any]], said: str) -> Response:
    try:
        new = await work
    except Unavailable:
        raise
    except CortexError as error:
        return go_to(back_to_job(request, job_id), Note("refused", str(error)))
    return go_to(back_to_job(request, new.id), Note("done", said))


@router.post("/jobs/{job_id}/release")
async def release(request: Request, caller: Operator, plane: ThePlane, job_id: IdPath) -> Response:
    async def work() -> str:
        job = await job_in(plane, caller, job_id)
        await plane.jobs.release(job.id, actor=caller.name)
        return "The next worker with its agent tries it."

    return await told(back_to_job(request, job_id), work())


@router.post("/jobs/{job_id}/fork")
async def fork(
    request: Request, caller: Operator, plane: ThePlane, job_id: IdPath, from_step: Annotated[str, Form(max_length=2_000)]
) -> Response:
    job = await job_in(plane, caller, job_id)
    said = f"This job begins at {from_step}; what came before is taken over."
    return await _new_job(request, job.id, plane.checkpoints.fork(job.id, from_step, created_by=caller.name), said)


@router.post("/jobs/{job_id}/priority")
async def priority(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    priority: Annotated[int, Form(ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT)],
    reason: Reason = "",
) -> Response:
    async def work() -> str:
        job = await job_in(plane, caller, job_id)
        await plane.jobs.set_priority(job.id, priority, actor=caller.name, reason=reason or None)
        return f"Its priority is {priority}."

    return await told(back_to_job(request, job_id), work())


@router.post("/jobs/{job_id}/move")
async def move(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    job_id: IdPath,
    place: Annotated[Literal["before", "after", "front", "back"], Form()],
    anchor: Annotated[str, Form(max_length=40)] = "",
    back: Back = "",
) -> Response:
    async def work() -> str:
        job = await job_in(plane, caller, job_id)
        other = (await job_in(plane, caller, anchor)).id if anchor else None
        await move_job(plane.store, job.id, Place(place), other, actor=caller.name, reason=None)
        return "Moved."

    return await told(back or back_to_job(request, job_id), work())
