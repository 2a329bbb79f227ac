"""Watches the other workers, and takes over the jobs of those that fell silent."""

from __future__ import annotations

from collections.abc import Callable

from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.outcomes import Transition, is_poisoned
from cortex_plane.operations.rescue_runs import declare_lost, rescue_runs
from cortex_plane.ports.clock import NewId, Random
from cortex_plane.ports.store import Store
from cortex_plane.runtime.metrics import count

LOOKS_IN_A_LEASE = 5


class Rescuer:
    """`settled` says whether this worker's own heart beats regularly; before that it judges nobody."""

    def __init__(
        self,
        store: Store,
        worker_id: WorkerId,
        lease_seconds: float,
        settled: Callable[[], bool],
        new_id: NewId,
        random: Random,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._rest_seconds = lease_seconds / LOOKS_IN_A_LEASE
        self._settled = settled
        self._new_id = new_id
        self._random = random

    async def once(self) -> float:
        if self._settled():
            await declare_lost(self._store, self._worker_id)
        await rescue_runs(self._store, self._worker_id, self._new_id, self._random, _counted)
        await self._store.queue.settle_stuck_keys()
        return self._rest_seconds


def _counted(transition: Transition) -> None:
    count("rescued_runs")
    if is_poisoned(transition):
        count("poisoned_jobs")
