"""How far a child job is: the last of its retry chain speaks for it."""

from __future__ import annotations

from typing import Any

from cortex_plane.core.jobs import JobId
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.store import Store


async def find_child(store: Store, child_id: JobId) -> tuple[JobId, JobStatus, Any, Any] | None:
    """Its id, status, output and error; None when it was not submitted yet."""
    end = await store.jobs.chain_end(child_id)
    if end is None:
        return None
    found = await store.jobs.status(end[0])
    return None if found is None else (end[0], found[0], found[1], found[2])
