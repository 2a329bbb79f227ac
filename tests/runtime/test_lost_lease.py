"""A worker that loses its lease stops its jobs, starts anew under another id, and goes on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from cortex_plane import Context, JobStatus, Plane, RunStatus
from cortex_plane.core.errors import Unavailable
from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.states import WorkerStatus
from cortex_plane.ports.store import Store
from tests.runtime.faults import FaultyStore, Outage, fails
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, status_becomes, worker_on

pytestmark = pytest.mark.anyio


class Patient:
    """An agent whose first run waits to be interrupted, and whose second one succeeds."""

    def __init__(self, plane: Plane) -> None:
        self.started, self.interrupted = asyncio.Event(), asyncio.Event()

        @plane.agent("patient")
        async def patient(ctx: Context) -> int:
            if ctx.attempt > 1:
                return ctx.attempt
            self.started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.interrupted.set()
                raise
            return ctx.attempt

        self.agent = patient


async def live_worker(store: Store) -> WorkerId:
    return next(worker.id for worker in await store.workers.list() if worker.status is WorkerStatus.LIVE)


async def test_a_worker_declared_lost_stops_its_jobs_and_goes_on_under_a_new_id(live_plane: Plane) -> None:
    patient, store = Patient(live_plane), await live_plane.store
    job = await patient.agent.submit()

    async with worker_on(live_plane, store):
        await asyncio.wait_for(patient.started.wait(), PATIENCE_SECONDS)
        first = await live_worker(store)
        await store.workers.give_up(first)  # As if another worker had declared it lost.
        await asyncio.wait_for(patient.interrupted.wait(), PATIENCE_SECONDS)
        answer = await job.result(timeout=PATIENCE_SECONDS)

    runs = await job.runs()
    assert answer == 2
    assert [(run.status, run.error) for run in runs] == [(RunStatus.FAILED, "worker lost"), (RunStatus.COMPLETED, None)]
    assert runs[0].worker_id == first
    assert runs[1].worker_id != first
    assert (await job.job()).retry_count == 0


async def test_a_worker_that_cannot_renew_its_lease_stops_its_jobs_before_others_may_take_them(live_plane: Plane) -> None:
    patient, store = Patient(live_plane), await live_plane.store
    faulty: Any = FaultyStore(store)
    outage = Outage()
    faulty.around("workers", "beat", outage.blocking)
    job = await patient.agent.submit()

    async with worker_on(live_plane, faulty, lease_seconds=3.0):
        await asyncio.wait_for(patient.started.wait(), PATIENCE_SECONDS)
        outage.down = True
        (worker,) = await store.workers.list()
        await asyncio.wait_for(patient.interrupted.wait(), PATIENCE_SECONDS)
        stopped_at = datetime.now(UTC)
        outage.down = False
        assert await job.result(timeout=PATIENCE_SECONDS) == 2

    assert stopped_at < worker.lease_until
    assert [run.status for run in await job.runs()] == [RunStatus.FAILED, RunStatus.COMPLETED]


async def test_a_result_that_comes_after_the_lease_is_lost_is_not_written(live_plane: Plane) -> None:
    store = await live_plane.store
    started, lost = asyncio.Event(), asyncio.Event()

    @live_plane.agent("stubborn")
    async def stubborn(ctx: Context) -> str:
        if ctx.attempt == 1:
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost.set()
        return f"attempt {ctx.attempt}"

    job = await stubborn.submit()
    async with worker_on(live_plane, store):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await store.workers.give_up(await live_worker(store))
        await asyncio.wait_for(lost.wait(), PATIENCE_SECONDS)
        answer = await job.result(timeout=PATIENCE_SECONDS)

    assert answer == "attempt 2"
    completions = [entry for entry in await job.history() if entry.new_status is JobStatus.COMPLETED]
    assert len(completions) == 1


async def test_a_database_that_is_still_away_does_not_end_the_worker_that_starts_anew(live_plane: Plane) -> None:
    patient, store = Patient(live_plane), await live_plane.store
    faulty: Any = FaultyStore(store)
    job = await patient.agent.submit()

    async with worker_on(live_plane, faulty):
        await asyncio.wait_for(patient.started.wait(), PATIENCE_SECONDS)
        faulty.around("workers", "register", fails(2))
        await store.workers.give_up(await live_worker(store))

        assert await job.result(timeout=PATIENCE_SECONDS) == 2


async def test_a_completion_that_waits_for_the_database_when_the_lease_is_lost_does_not_hold_up_the_new_start(
    live_plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.runtime.worker.LAST_WORD_SECONDS", 3600.0)  # Who waits for such answers waits too long.
    store = await live_plane.store
    faulty: Any = FaultyStore(store)
    starts = 0

    @live_plane.agent("quick")
    async def quick(ctx: Context) -> int:
        nonlocal starts
        starts += 1
        return ctx.attempt

    away = True

    async def no_completions(method: Any, batch: Any, actor: str) -> Any:
        if away and any(transition.status is JobStatus.COMPLETED for transition in batch):
            raise Unavailable("The database is away.")
        return await method(batch, actor)

    faulty.around("queue", "finish", no_completions)
    job = await quick.submit()
    async with worker_on(live_plane, faulty):

        async def ran() -> bool:
            return starts > 0

        await eventually(ran)
        first = await live_worker(store)
        await store.workers.give_up(first)

        async def began_anew() -> bool:
            return any(worker.status is WorkerStatus.LIVE and worker.id != first for worker in await store.workers.list())

        await eventually(began_anew)
        away = False
        answer = await job.result(timeout=PATIENCE_SECONDS)

    assert answer == 2


async def test_the_other_jobs_of_the_new_life_are_written_as_usual(live_plane: Plane) -> None:
    patient, store = Patient(live_plane), await live_plane.store

    @live_plane.agent("quick")
    async def quick(ctx: Context) -> str:
        return "fine"

    await patient.agent.submit()
    async with worker_on(live_plane, store, concurrency=1):
        await asyncio.wait_for(patient.started.wait(), PATIENCE_SECONDS)
        first = await live_worker(store)
        await store.workers.give_up(first)
        answers = [await (await quick.submit()).result(timeout=PATIENCE_SECONDS) for _ in range(3)]
        await status_becomes(await quick.submit(), JobStatus.COMPLETED)

    assert answers == ["fine"] * 3
    assert [worker.status for worker in await store.workers.list() if worker.id != first] == [WorkerStatus.STOPPED]
