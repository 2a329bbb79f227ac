"""The background loops of every worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cortex_plane.approvals.deadlines import Deadlines
from cortex_plane.audit.sealer import Sealer
from cortex_plane.retention.pruner import Pruner
from cortex_plane.webhooks.delivery import Redeliverer
from cortex_plane.worker.loops import BackgroundLoop, Timers
from cortex_plane.worker.reconciler import JobReconciler, Reconciler

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.clock import Clock, Random
    from cortex_plane.ids import NewId
    from cortex_plane.metrics.service import RunFigures
    from cortex_plane.stores import Store
    from cortex_plane.worker.reporter import Reporter
    from cortex_plane.worker.rescue import Rescuer

REST_SECONDS = 1.0
BREATH_SECONDS = 0.005
"""Pause between two pages, for other writers."""


class Lanes:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def once(self) -> float:
        return BREATH_SECONDS if await self._store.controls.move_lanes() else REST_SECONDS


# -- entry counts ------------------------------------------------------------------------------
# Folds the count changes of queues and tenants, so that readers have few rows to add up.


MANY = 1_000
SHORT_REST_SECONDS = 0.1


class EntryCounts:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def once(self) -> float:
        return SHORT_REST_SECONDS if await self._store.queue.fold_counts() > MANY else REST_SECONDS


# -- job deadlines -----------------------------------------------------------------------------
# Ends jobs whose deadline has passed, in any state. The database's clock decides.


BATCH = 100
LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.005


class JobDeadlines:
    """Every worker looks; what one of them has ended the others find ended. While no job has a deadline, a look costs one
    read of an empty index."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._acting = asyncio.Lock()

    async def once(self) -> float:
        if await self.act():
            return 0.0
        due = await self._store.jobs.next_deadline_in()
        if due is None or due <= 0:  # Another worker has it locked.
            return LONGEST_REST_SECONDS
        return min(max(due, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def act(self) -> bool:
        """Ends one batch of due jobs; returns whether there may be more."""
        async with self._acting:  # A concurrent pass would skip rows that the first has locked.
            due = await self._store.jobs.next_deadline_in()
            if due is None or due > 0:
                return False
            return await self._store.jobs.end_overdue(BATCH) == BATCH


# -- held jobs ---------------------------------------------------------------------------------
# Offers held jobs to this worker: its code may fit where that of others did not.


LOOK_SECONDS = 5.0


class HeldJobs:
    """Every worker looks for what its own code was not tried on. While no job is held, that is one read of an empty table."""

    def __init__(self, store: Store, codes: Mapping[str, str]) -> None:
        self._store, self._codes = store, codes
        self._turn = asyncio.Lock()  # The loop and a worker that runs it early would lock each other's jobs.

    async def once(self) -> float:
        return 0.0 if await self.offer() == BATCH else LOOK_SECONDS

    async def offer(self) -> int:
        async with self._turn:
            return await self._store.holds.offer(self._codes, BATCH)


# -- loops -------------------------------------------------------------------------------------
# Every worker runs these loops, each for the whole fleet. They are idempotent, so several workers do no harm.


class Due:
    """Due work. Four loops make it ready at their intervals; a worker that runs until idle does so at once."""

    def __init__(self, store: Store, codes: Mapping[str, str]) -> None:
        self._store, self.held = store, HeldJobs(store, codes)
        self.timers, self.deadlines, self.job_deadlines = Timers(store), Deadlines(store), JobDeadlines(store)

    async def make_ready(self) -> None:
        while await self.job_deadlines.act():
            pass
        await self.deadlines.act()
        while await self.held.offer():
            pass
        await self.timers.promote()
        await self._store.queue.settle_stuck_keys()


def background_loops(
    store: Store,
    clock: Clock,
    new_id: NewId,
    random: Random,
    directory: Directory,
    due: Due,
    rescuer: Rescuer,
    reporter: Reporter,
    figures: RunFigures,
    exported_to: str,
) -> list[BackgroundLoop]:
    return [
        BackgroundLoop("timers", due.timers.once, clock),
        BackgroundLoop("lanes", Lanes(store).once, clock),
        BackgroundLoop("deadlines", due.deadlines.once, clock),
        BackgroundLoop("job_deadlines", due.job_deadlines.once, clock),
        BackgroundLoop("held_jobs", due.held.once, clock),
        BackgroundLoop("rescuer", rescuer.once, clock),
        BackgroundLoop("sealer", Sealer(store).once, clock),
        BackgroundLoop("pruner", Pruner(store, exported_to).once, clock),
        BackgroundLoop("reconciler", Reconciler(store, directory, new_id).once, clock),
        BackgroundLoop("job_reconciler", JobReconciler(store, new_id, random).once, clock),
        BackgroundLoop("redeliverer", Redeliverer(store, new_id).once, clock),
        BackgroundLoop("reporter", reporter.once, clock),
        BackgroundLoop("counter", figures.once, clock),
        BackgroundLoop("entry_counts", EntryCounts(store).once, clock),
    ]
