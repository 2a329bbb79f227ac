"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel

from cortex_plane.adapters.http.access import ThePlane, anybody
from cortex_plane.core.errors import CortexError
from cortex_plane.plane import Plane

router = APIRouter(tags=["health"])

STALE_SECONDS = 300.0
"""A loop waits a minute at the longest, and gives a try two."""


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
async def readyz(plane: ThePlane, response: Response) -> Readiness:
    """The database answers, its schema is ours, and every loop of a worker in this process has gone well lately."""
    checks = {"database": await _database(plane), **_loops(plane)}
    ready = all(found == "ok" for found in checks.values())
    response.status_code = 200 if ready else 503
    return Readiness(ready=ready, checks=checks)


async def _database(plane: Plane) -> str:
    try:
        status = await (await plane.store).schema.status()
    except CortexError:
        return "does not answer"
    return "ok" if not status.pending else f"lacks {len(status.pending)} migrations: cortex db upgrade"


def _loops(plane: Plane) -> dict[str, str]:
    now = plane.clock.elapsed()
    return {
        f"loop {duty.name}": "ok"
        if duty.last_ok_at is None or now - duty.last_ok_at < STALE_SECONDS
        else "went well too long ago"
        for worker in plane._workers
        for duty in worker.duties
    }
