"""Deletes what the retention rules no longer keep: a small batch, a rest, the next, and a long rest after each pass."""

from __future__ import annotations

from cortex_plane.core.jobs import JobId
from cortex_plane.operations.prune_jobs import prune_jobs
from cortex_plane.ports.store import Store

REST_BETWEEN_BATCHES_SECONDS = 0.1
REST_BETWEEN_PASSES_SECONDS = 60.0


class Pruner:
    """Remembers how far the pass has come, so that no batch looks again at what an earlier one has seen. Several workers may
    prune at once: each walks for itself, and a job is deleted once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: JobId | None = None

    async def once(self) -> float:
        pruned = await prune_jobs(self._store, self._after)
        self._after = pruned.after
        return REST_BETWEEN_PASSES_SECONDS if pruned.after is None else REST_BETWEEN_BATCHES_SECONDS
