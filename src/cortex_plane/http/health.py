"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from cortex_plane.errors import CortexError
from cortex_plane.http.auth import ThePlane, anybody
from cortex_plane.plane import Plane
from cortex_plane.worker.heartbeat import OK, describe_loops, look_at_database
from cortex_plane.worker.loops import BackgroundLoop

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str


class Readiness(BaseModel):
    """`checks` says of each thing that we need `ok`, or what is wrong."""

    ready: bool
    checks: dict[str, str]


@router.get("/healthz", dependencies=[anybody])
async def healthz() -> Health:
    """The process lives. Asks nothing of anybody."""
    return Health(status="ok")


@router.get("/readyz", dependencies=[anybody], responses={503: {"model": Readiness, "description": "Not ready."}})
async def readyz(request: Request, plane: ThePlane, response: Response) -> Readiness:
    """The database answers, its schema is ours, and every loop in this process has gone well lately."""
    checks = {"database": await _database(plane), **describe_loops(loops_in(request, plane))}
    ready = all(found == OK for found in checks.values())
    response.status_code = 200 if ready else 503
    return Readiness(ready=ready, checks=checks)


def loops_in(request: Request, plane: Plane) -> list[BackgroundLoop]:
    """The loops of this server and those of every worker that runs in the same process."""
    own: list[BackgroundLoop] = request.app.state.loops
    return [*own, *(loop for worker in plane._workers for loop in worker.loops)]


async def _database(plane: Plane) -> str:
    try:
        store = plane.store
    except CortexError:
        return "does not answer"
    return await look_at_database(store)
