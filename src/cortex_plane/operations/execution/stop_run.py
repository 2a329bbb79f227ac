"""Asks a run to stop that was started under a grant."""

from __future__ import annotations

from cortex_plane.operations.execution.look_at_run import find_request
from cortex_plane.ports.store import Store


async def stop_run(store: Store, run_id: str, *, actor: str | None = None, reason: str | None = None) -> bool:
    """False when it had ended. Raises RunNotFound."""
    request = await find_request(store, run_id)
    end = await store.jobs.chain_end(request.run_id)
    return end is not None and await store.jobs.cancel(end[0], actor, reason)
