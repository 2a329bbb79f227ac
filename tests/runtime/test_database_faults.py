"""A database that is away for a while, or loses an answer, costs a worker no job and no loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from cortex_plane import Context, JobStatus, Plane
from cortex_plane.errors import Unavailable
from cortex_plane.stores import Store
from tests.end_to_end.inspection import broken_rules
from tests.runtime.faults import FaultyStore, Outage, fails, loses_answer
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, status_becomes, worker_on

pytestmark = pytest.mark.anyio


class Counter:
    """An agent that counts its starts."""

    def __init__(self, plane: Plane) -> None:
        self.starts = 0

        @plane.agent("count")
        async def count(ctx: Context) -> int:
            self.starts += 1
            return ctx.attempt

        self.agent = count


async def faulty_store(plane: Plane) -> Any:
    store: Store = plane.store
    return FaultyStore(store)


async def test_a_claim_that_fails_is_made_again(live_plane: Plane) -> None:
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    faulty.around("queue", "claim", fails(1))

    job = await counter.agent.submit()
    async with worker_on(live_plane, faulty):
        assert await job.result(timeout=PATIENCE_SECONDS) == 1


async def test_the_heartbeat_has_its_connection_before_anything_is_claimed(live_plane: Plane) -> None:
    """Where connections are few, those of the claims would take them all, and the lease would be lost."""
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    calls: list[str] = []

    def heartbeat(make: Any, worker_id: Any) -> Any:
        beat = make(worker_id)

        def noted(timeout_seconds: float) -> Any:
            calls.append("beat")
            return beat(timeout_seconds)

        return noted

    async def claim(method: Any, *values: Any) -> Any:
        calls.append("claim")
        return await method(*values)

    faulty.around("workers", "heartbeat", heartbeat)
    faulty.around("queue", "claim", claim)
    job = await counter.agent.submit()
    async with worker_on(live_plane, faulty):
        await job.result(timeout=PATIENCE_SECONDS)

    assert calls[:2] == ["beat", "claim"]


async def test_a_claim_whose_answer_was_lost_is_adopted(live_plane: Plane, database_url: str) -> None:
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    faulty.around("queue", "claim", loses_answer(1))
    faulty.around("queue", "open_runs", fails(2))

    jobs = [await counter.agent.submit() for _ in range(5)]
    async with worker_on(live_plane, faulty):
        answers = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]

    assert answers == [1] * 5
    assert counter.starts == 5
    assert await broken_rules(database_url) == {}


async def test_a_claim_that_commits_after_it_was_given_up_leaves_no_job_behind(live_plane: Plane) -> None:
    """The network broke while the server still worked on the claim: it commits when the worker has already looked."""
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    late: list[asyncio.Task[Any]] = []

    async def slow_server(method: Any, *values: Any) -> Any:
        async def commit_later() -> Any:
            await asyncio.sleep(0.5)
            return await method(*values)

        if late:
            return await method(*values)
        late.append(asyncio.create_task(commit_later()))
        raise Unavailable("The connection broke.")

    async def nothing_meanwhile(method: Any, *values: Any) -> Any:
        return [] if not late or not late[0].done() else await method(*values)

    faulty.around("queue", "claim", slow_server)
    job = await counter.agent.submit()
    claim_again = asyncio.Event()

    async def wait_for_the_late_one(method: Any, *values: Any) -> Any:
        answer = await method(*values)
        if not claim_again.is_set():
            faulty.around("queue", "claim", nothing_meanwhile)
            claim_again.set()
        return answer

    faulty.around("queue", "open_runs", wait_for_the_late_one)
    async with worker_on(live_plane, faulty):
        assert await job.result(timeout=PATIENCE_SECONDS) in (1, 2)


async def test_a_job_is_written_once_though_the_answer_was_lost(live_plane: Plane, database_url: str) -> None:
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    faulty.around("queue", "finish", loses_answer(2))

    jobs = [await counter.agent.submit() for _ in range(10)]
    async with worker_on(live_plane, faulty, concurrency=3):
        answers = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]

    assert answers == [1] * 10
    assert counter.starts == 10
    assert await broken_rules(database_url) == {}
    audited = [await live_plane.store.audit.list(job.id) for job in jobs]
    assert [[record.entry.action for record in records] for records in audited] == [["JOB_COMPLETED"]] * 10


@pytest.mark.parametrize("error", [Unavailable("The database is away."), RuntimeError("nobody thought of this")])
async def test_one_failed_look_does_not_make_the_worker_blind_to_cancellations(live_plane: Plane, error: Exception) -> None:
    faulty = await faulty_store(live_plane)
    started, interrupted = asyncio.Event(), asyncio.Event()

    @live_plane.agent("long")
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            interrupted.set()
            raise

    looked = asyncio.Event()

    async def fault(method: Any, *values: Any) -> Any:
        if not looked.is_set():
            looked.set()
            raise error
        return await method(*values)

    faulty.around("queue", "closed_runs", fault)
    job = await long.submit()
    async with worker_on(live_plane, faulty):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await job.cancel()
        await asyncio.wait_for(looked.wait(), PATIENCE_SECONDS)
        await asyncio.wait_for(interrupted.wait(), PATIENCE_SECONDS)


@pytest.mark.parametrize("operation", ["promote_due", "next_due_in"])
async def test_the_timers_outlive_a_database_that_is_away(live_plane: Plane, operation: str) -> None:
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    faulty.around("queue", operation, fails(2))

    job = await counter.agent.options(delay=0.1).submit()
    async with worker_on(live_plane, faulty):
        assert await job.result(timeout=PATIENCE_SECONDS) == 1


async def test_a_worker_that_is_asked_to_stop_while_the_database_is_away_ends_all_the_same(
    live_plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.worker.worker.FINAL_WRITES_SECONDS", 0.3)
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    outage = Outage()
    faulty.around("workers", "heartbeat", lambda make, worker_id: partial(outage.blocking, make(worker_id)))
    for part, method in [("queue", "claim"), ("queue", "open_runs"), ("workers", "leave"), ("workers", "give_up")]:
        faulty.around(part, method, outage)

    async def away_from_now_on(_method: Any, *_values: Any) -> Any:
        outage.down = True
        raise Unavailable("The database is away.")

    faulty.around("queue", "finish", away_from_now_on)
    job = await counter.agent.submit()
    async with worker_on(live_plane, faulty) as worker:

        async def went_away() -> bool:
            return outage.down

        await eventually(went_away)
        worker.stop()  # The end of this block waits until it has ended.

    assert await job.status() is JobStatus.RUNNING  # Its lease runs out, and somebody else goes on with it.


async def test_a_claim_that_arrives_after_the_request_to_stop_is_handed_back(live_plane: Plane) -> None:
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)
    claiming, stopped = asyncio.Event(), asyncio.Event()

    async def slow(method: Any, *values: Any) -> Any:
        claimed = await method(*values)
        if claimed:
            claiming.set()
            await stopped.wait()
        return claimed

    faulty.around("queue", "claim", slow)
    job = await counter.agent.submit()
    async with worker_on(live_plane, faulty) as worker:
        await asyncio.wait_for(claiming.wait(), PATIENCE_SECONDS)
        worker.stop()
        stopped.set()

    waiting = await job.job()
    assert (waiting.status, waiting.wait_reason, waiting.retry_count) == (JobStatus.RETRY, "handed_back", 0)
    assert counter.starts == 0


async def test_two_outages_in_a_row_lose_nothing(live_plane: Plane, database_url: str) -> None:
    counter, faulty = Counter(live_plane), await faulty_store(live_plane)

    jobs = [await counter.agent.submit() for _ in range(30)]
    async with worker_on(live_plane, faulty, concurrency=4):
        for part, method in [("queue", "claim"), ("queue", "finish"), ("queue", "open_runs"), ("queue", "closed_runs")]:
            faulty.around(part, method, fails(1))
        answers = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]

    assert len(answers) == 30
    assert await broken_rules(database_url) == {}


async def test_a_late_look_starts_no_handler_a_second_time(live_plane: Plane) -> None:
    """The answer of the claim is lost; one look finds its run, and the answer of the next comes when the run has ended."""
    faulty, go_on = await faulty_store(live_plane), asyncio.Event()
    starts: list[str] = []

    @live_plane.agent("count")
    async def count(ctx: Context) -> None:
        starts.append(ctx.run_id)
        await go_on.wait()

    looks: list[int] = []

    async def claim(method: Any, *values: Any) -> Any:
        if await method(*values):
            raise Unavailable("The connection broke.")
        return []

    async def look(method: Any, *values: Any) -> Any:
        found = await method(*values)
        looks.append(len(found))
        if looks.count(1) == 1:
            looks.append(1)
            return []  # As if the server had not committed the claim yet.
        if found and starts and not go_on.is_set():
            go_on.set()
            await status_becomes(job, JobStatus.COMPLETED)
            await eventually(slot_is_free)
        return found

    async def slot_is_free() -> bool:
        return not worker._running

    faulty.around("queue", "claim", claim)
    faulty.around("queue", "open_runs", look)
    job = await count.submit()
    async with worker_on(live_plane, faulty) as worker, asyncio.timeout(PATIENCE_SECONDS):
        while not go_on.is_set():
            worker._cancelled.set()  # Another look.
            await asyncio.sleep(0.02)
        last = len(looks)
        while len(looks) < last + 2:
            worker._cancelled.set()
            await asyncio.sleep(0.02)

    assert len(starts) == 1
