"""Runs: the executions of jobs."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import ID_PATTERN, IdPath, NameQuery
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, ids_in
from cortex_plane.adapters.http.routes.found import job_in, job_run_in
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import RunNotFound
from cortex_plane.core.jobs import JobId, Run, RunId
from cortex_plane.core.run_pages import RunPlace
from cortex_plane.core.states import RunStatus
from cortex_plane.operations.find_worker import find_worker

router = APIRouter(prefix="/runs", tags=["runs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
OfJob = Annotated[str | None, Query(pattern=ID_PATTERN, description="Its job; without it, only one of the newest is found.")]
Status = Literal["RUNNING", "COMPLETED", "FAILED", "SKIPPED", "CANCELLED", "WAITING", "SLEEPING", "INTERRUPTED"]


@router.get("")
async def list_runs(
    caller: Viewer,
    plane: ThePlane,
    status: Annotated[Status | None, Query(description="RUNNING has not ended; all others have.")] = None,
    worker: Annotated[NameQuery, Query(description="The id or the name of the worker.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Run]:
    """Runs, those of the newest jobs first. What is rare is looked for in steps: a page may be short and still have a next one.
    Those of one job: /api/v1/jobs/{job_id}/runs"""
    store, place = await plane.store, ids_in("run", cursor)
    page = await store.runs.page(
        tenant_id=caller.tenant_id,
        status=RunStatus(status) if status else None,
        worker_id=None if worker is None else (await find_worker(store, worker)).id,
        before=None if place is None else RunPlace(JobId(place[0]), RunId(place[1])),
        limit=limit,
    )
    return Page(items=page.runs, next=cursor_for("run", " ".join(page.next_before)) if page.next_before else None)


@router.get("/{run_id}")
async def get_run(caller: Viewer, plane: ThePlane, run_id: IdPath, job: OfJob = None) -> Run:
    """One run."""
    if job is None:
        return await job_run_in(plane, caller, run_id)
    found = await (await plane.store).runs.get((await job_in(plane, caller, job)).id, RunId(run_id))
    if found is None:
        raise RunNotFound(run_id, of_a_job=True)
    return found
