"""What operators do with jobs from a page: the same operations as behind the API."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import Note, go_to, told
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import Id, IdPath
from cortex_plane.adapters.http.routes.found import job_in
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import CortexError, InvalidInput, Unavailable
from cortex_plane.core.order import Place
from cortex_plane.operations.move_job import move_job
from cortex_plane.operations.submit_jobs import PRIORITY_LIMIT, Submission
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

Operator = Annotated[Caller, require(Role.OPERATOR)]
Reason = Annotated[str, Form(max_length=2_000)]
Back = Annotated[str, Form(max_length=2_000)]
MOST_AT_ONCE = 200


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
        [job_id] = await plane.submit_checked(
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
    action: Annotated[Literal["cancel", "retry"], Form()],
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
    said = f"{'Cancelled' if action == 'cancel' else 'Retried'} {done} {'job' if done == 1 else 'jobs'}."
    if refused:
        said += f" {len(refused)} could not be: {refused[0]}"
    return go_to(back, Note("refused" if refused else "done", said))


async def _change(plane: Plane, caller: Caller, action: str, job_id: str, reason: str) -> None:
    job = await job_in(plane, caller, job_id)
    if action == "cancel":
        await plane.cancel(job.id, actor=caller.name, reason=reason or None)
    else:
        await plane.retry(job.id, actor=caller.name)


@router.post("/jobs/{job_id}/cancel")
async def cancel(request: Request, caller: Operator, plane: ThePlane, job_id: IdPath, reason: Reason = "") -> Response:
    async def work() -> str:
        job = await job_in(plane, caller, job_id)
        await plane.cancel(job.id, actor=caller.name, reason=reason or None)
        return "Cancelled."

    return await told(back_to_job(request, job_id), work())


@router.post("/jobs/{job_id}/retry")
async def retry(request: Request, caller: Operator, plane: ThePlane, job_id: IdPath) -> Response:
    """Shows the new job."""
    job = await job_in(plane, caller, job_id)
    try:
        new = await plane.retry(job.id, actor=caller.name)
    except Unavailable:
        raise
    except CortexError as error:
        return go_to(back_to_job(request, job_id), Note("refused", str(error)))
    return go_to(back_to_job(request, new.id), Note("done", "This is the new job; it is linked to the one before."))


@router.post("/jobs/{job_id}/fork")
async def fork(
    request: Request, caller: Operator, plane: ThePlane, job_id: IdPath, from_step: Annotated[str, Form(max_length=2_000)]
) -> Response:
    job = await job_in(plane, caller, job_id)
    try:
        new = await plane.checkpoints.fork(job.id, from_step, created_by=caller.name)
    except Unavailable:
        raise
    except CortexError as error:
        return go_to(back_to_job(request, job_id), Note("refused", str(error)))
    return go_to(back_to_job(request, new.id), Note("done", f"This job begins at {from_step}; what came before is taken over."))


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
        await plane.set_priority(job.id, priority, actor=caller.name, reason=reason or None)
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
        await move_job(await plane.store, job.id, Place(place), other, actor=caller.name, reason=None)
        return "Moved."

    return await told(back or back_to_job(request, job_id), work())
