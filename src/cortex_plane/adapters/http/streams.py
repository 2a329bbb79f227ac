"""What all event streams of one app share: one look at the database serves everybody who follows the same."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from cortex_plane.opened import Opened
from cortex_plane.operations.watch_jobs import JobWatch
from cortex_plane.operations.watch_lists import ListWatch
from cortex_plane.plane import Plane


@dataclass(frozen=True, slots=True)
class Watches:
    opened: Opened
    jobs: JobWatch
    lists: ListWatch


async def watches_of(request: Request, plane: Plane) -> Watches:
    """Of the store as it is open now: a plane that was closed and opened again has another one."""
    opened = await plane._open_here()
    kept: Watches | None = getattr(request.app.state, "watches", None)
    if kept is None or kept.opened is not opened:
        kept = Watches(opened, JobWatch(opened.store, plane.clock), ListWatch(opened.store, opened.directory, plane.clock))
        request.app.state.watches = kept
    return kept
