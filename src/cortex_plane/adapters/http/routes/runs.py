"""Runs: the executions of jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import ID_PATTERN, IdPath
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, id_in
from cortex_plane.adapters.http.routes.found import job_in
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import RunNotFound
from cortex_plane.core.jobs import Run, RunId

router = APIRouter(prefix="/runs", tags=["runs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
OfJob = Annotated[str | None, Query(pattern=ID_PATTERN, description="Its job; without it, only an open run is found.")]


@router.get("")
async def list_open_runs(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[Run]:
    """Runs that have not ended, newest first. Those of one job, ended or not: /api/v1/jobs/{job_id}/runs"""
    before = id_in("run", cursor)
    last = None if before is None else RunId(before)
    found = await (await plane.store).runs.list_open(caller.tenant_id, before=last, limit=limit)
    return Page(items=found, next=cursor_for("run", found[-1].id) if len(found) == limit else None)


@router.get("/{run_id}")
async def get_run(caller: Viewer, plane: ThePlane, run_id: IdPath, job: OfJob = None) -> Run:
    """One run."""
    runs = (await plane.store).runs
    if job is not None:
        found = await runs.get((await job_in(plane, caller, job)).id, RunId(run_id))
    else:
        found = next(iter(await runs.list_open(caller.tenant_id, run_id=RunId(run_id), limit=1)), None)
    if found is None:
        raise RunNotFound(run_id, of_a_job=job is not None)
    return found
