"""Deletes what the retention rules no longer keep: a small batch, a rest, the next, and a long rest after each pass."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cortex_plane.retention.service import BATCH, prune_jobs, prune_records

if TYPE_CHECKING:
    from cortex_plane.jobs.model import JobId
    from cortex_plane.stores import Store

LONGEST_REST_BETWEEN_BATCHES_SECONDS = 0.1
"""After a batch it rests for as long as the batch took: half of one session at most."""
PATIENT_BATCHES = 10
"""After so many full batches in a row it is behind: it rests no more and deletes as many at once as the store allows,
until a batch is not full. Otherwise jobs would end faster than they are deleted for as long as the work lasts."""
REST_BETWEEN_PASSES_SECONDS = 60.0


class Pruner:
    """Remembers how far the pass has come, so that no batch looks again at what an earlier one has seen. Several workers may
    prune at once: each walks for itself, and a job is deleted once."""

    def __init__(self, store: Store, exported_to: str = "") -> None:
        """`exported_to` is where seals of the audit log are sent; only entries whose seal has arrived there are pruned."""
        self._store, self._exported_to = store, exported_to
        self._after: JobId | None = None
        self._full_batches = 0

    @property
    def _behind(self) -> bool:
        return self._full_batches >= PATIENT_BATCHES

    async def once(self) -> float:
        began, batch = _now(), self._store.retention.most_at_once if self._behind else BATCH
        pruned = await prune_jobs(self._store, self._after, batch=batch)
        self._after = pruned.after
        self._full_batches = self._full_batches + 1 if pruned.deleted >= BATCH else 0
        if pruned.after is None and await prune_records(self._store, exported_to=self._exported_to) == 0:
            return REST_BETWEEN_PASSES_SECONDS
        return 0.0 if self._behind else min(_now() - began, LONGEST_REST_BETWEEN_BATCHES_SECONDS)


def _now() -> float:
    return asyncio.get_running_loop().time()
