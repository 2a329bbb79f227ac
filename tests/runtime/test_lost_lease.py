"""A worker that loses its lease stops its jobs, starts anew under another id, and goes on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from cortex_plane import Context, JobStatus, Plane, RunStatus
from cortex_plane.errors import Unavailable
from cortex_plane.jobs.model import WorkerId
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.stores import Store
from cortex_plane.worker.worker import Worker
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
    patient, store = Patient(live_plane), live_plane.store
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
    patient, store = Patient(live_plane), live_plane.store
    faulty: Any = FaultyStore(store)
    outage = Outage()
    faulty.around("workers", "heartbeat", lambda make, worker_id: partial(outage.blocking, make(worker_id)))
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
    store = live_plane.store
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
    patient, store = Patient(live_plane), live_plane.store
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
    monkeypatch.setattr("cortex_plane.worker.worker.FINAL_WRITES_SECONDS", 3600.0)  # Who waits for such answers waits too long.
    store = live_plane.store
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
    patient, store = Patient(live_plane), live_plane.store

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


class Late:
    """Holds an answer of the database back until the worker has lost its lease. The first run of its agent waits for its end."""

    def __init__(self, plane: Plane, store: Store) -> None:
        self.store: Any = FaultyStore(store)
        self.answered, self.lease_lost = asyncio.Event(), asyncio.Event()
        self.started: list[str] = []

        @plane.agent("long")
        async def long(ctx: Context) -> str:
            self.started.append(ctx.run_id)
            if ctx.attempt == 1:
                await asyncio.sleep(60)
            return "done"

        self.agent = long

    async def held_back(self, found: Any) -> Any:
        if found and not self.answered.is_set():
            self.answered.set()
            await self.lease_lost.wait()
        return found

    async def lose_lease(self, worker: Worker) -> None:
        lose = worker._lose_lease

        def lost(why: str) -> None:
            lose(why)
            self.lease_lost.set()

        worker._lose_lease = lost  # type: ignore[method-assign]
        await asyncio.wait_for(self.answered.wait(), PATIENCE_SECONDS)
        await self.store.workers.give_up(await live_worker(self.store))


async def test_what_was_claimed_before_the_lease_was_lost_is_not_started_after_it(live_plane: Plane) -> None:
    late = Late(live_plane, live_plane.store)

    async def claim(method: Any, *values: Any) -> Any:
        return await late.held_back(await method(*values))

    late.store.around("queue", "claim", claim)
    job = await late.agent.submit()
    async with worker_on(live_plane, late.store) as worker:
        await late.lose_lease(worker)
        assert await job.result(timeout=PATIENCE_SECONDS) == "done"

    assert late.started == [(await job.runs())[-1].id]


async def test_a_run_is_not_started_again_by_an_answer_that_comes_after_the_lease_was_lost(live_plane: Plane) -> None:
    """The answer to a claim never came; its run was found and started. The worker looks again, as it does for a while."""
    late = Late(live_plane, live_plane.store)

    async def claim(method: Any, *values: Any) -> Any:
        found = await method(*values)
        if found and not late.started:
            raise Unavailable("The connection broke.")
        return found

    async def open_runs(method: Any, *values: Any) -> Any:
        found = await method(*values)
        return await late.held_back(found) if late.started else found

    late.store.around("queue", "claim", claim)
    late.store.around("queue", "open_runs", open_runs)
    job = await late.agent.submit()
    async with worker_on(live_plane, late.store) as worker:

        async def has_started() -> bool:
            worker._cancelled.set()  # As a signal of the database: it looks at its runs at once.
            return bool(late.started)

        losing = asyncio.create_task(late.lose_lease(worker))
        await eventually(has_started)
        await losing
        assert await job.result(timeout=PATIENCE_SECONDS) == "done"

    assert late.started == [run.id for run in await job.runs()]
