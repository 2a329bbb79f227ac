"""Pages of workers: status, load, the drain button, and in development the kill button."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.dashboard.flash import Note, go_to, told
from cortex_plane.dashboard.live import Workshop
from cortex_plane.dashboard.render import page
from cortex_plane.errors import NotFound
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.people.roles import Caller, Role

router = APIRouter(include_in_schema=False)

SHOWN = 100


@router.get("/workers")
async def workers(
    request: Request, caller: Annotated[Caller, require(Role.VIEWER, everywhere=True)], plane: ThePlane
) -> Response:
    store = plane.store
    found = await store.workers.list(SHOWN)
    workshop: Workshop | None = request.app.state.workshop
    return await page(
        request,
        caller,
        "workers.html",
        live=[worker for worker in found if worker.status is WorkerStatus.LIVE],
        gone=[worker for worker in found if worker.status is not WorkerStatus.LIVE][:20],
        busy=await store.stats.runs_of_workers(),
        killable={worker.name for worker in found if workshop is not None and workshop.has(worker.name)},
    )


@router.post("/workers/drain")
async def drain(
    caller: Annotated[Caller, require(Role.OPERATOR, everywhere=True)],
    plane: ThePlane,
    worker_id: Annotated[str, Form(max_length=36)],
    reason: Annotated[str, Form(max_length=2_000)] = "",
    back: Annotated[str, Form(max_length=2_000)] = "/workers",
) -> Response:
    """Any worker, on any machine."""

    async def work() -> str:
        asked = await plane.workers.drain(worker_id, actor=caller.name, reason=reason or None)
        return "Asked it to finish what it has, and to leave." if asked else "It was asked already."

    return await told(back, work())


@router.post("/workers/kill")
async def kill(
    request: Request,
    _caller: Annotated[Caller, require(Role.ADMIN, everywhere=True)],
    name: Annotated[str, Form(max_length=300)],
    back: Annotated[str, Form(max_length=2_000)] = "/workers",
) -> Response:
    """Only of workers that this server started itself."""
    workshop: Workshop | None = request.app.state.workshop
    if workshop is None:
        raise NotFound("Workers can be killed from here only under cortex dev, which starts them itself.")
    if not workshop.kill(name):
        return go_to(back, Note("refused", f"{name} is not running any more."))
    return go_to(
        back, Note("done", f"Killed {name} with SIGKILL. Another is starting; when the lease runs out, its jobs resume.")
    )
