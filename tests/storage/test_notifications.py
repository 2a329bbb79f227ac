"""Wake-ups on PostgreSQL: pushed where notifications arrive, looked for where they do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cortex_plane import Context, Plane
from cortex_plane.audit.model import AuditEntry
from cortex_plane.jobs.states import JobStatus
from cortex_plane.testing import ManualClock
from cortex_plane.wiring import open_store
from tests.contract.support import BOOM, Scene
from tests.runtime.helpers import PATIENCE_SECONDS
from tests.storage.proxy import without_notifications

pytestmark = pytest.mark.anyio


async def opened(url: str) -> Any:
    store: Any = open_store(url)
    await store.open()
    return store


@pytest.fixture
async def direct(postgres_url: str) -> AsyncIterator[Any]:
    store = await opened(postgres_url)
    yield store
    await store.close()


async def heard(event: asyncio.Event, seconds: float = 3.0) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    event.clear()
    return True


async def listening(store: Any, **what: Any) -> asyncio.Event:
    event = asyncio.Event()
    store.signals.subscribe(event, **what)
    assert await heard(event), "who begins to listen looks once, because something may have been missed"
    return event


async def test_where_notifications_arrive_they_are_used(direct: Any) -> None:
    assert direct.signals.pushed


async def test_where_they_are_swallowed_the_plane_looks_by_itself_and_everything_works(postgres_url: str) -> None:
    with without_notifications(postgres_url) as url:
        store = await opened(url)
        assert not store.signals.pushed
        assert store.signals.poll_seconds <= 1.0

        scene = Scene(store, ManualClock())
        job_ids = [await scene.submit(serial_key=key) for key in ("a", "a", None)]
        worker = await scene.worker()
        claimed = await scene.claim(worker)
        assert [one.job_id for one in claimed] == [job_ids[0], job_ids[2]]
        await scene.finish(claimed[0], BOOM)
        await store.jobs.cancel(job_ids[2], None, None)
        assert await asyncio.to_thread(store.workers.heartbeat(worker), 5.0)
        assert [await scene.status(job_id) for job_id in job_ids] == [JobStatus.RETRY, JobStatus.PENDING, JobStatus.CANCELLED]
        await store.close()


async def test_a_worker_behind_such_a_pooler_runs_jobs_that_come_later(postgres_url: str) -> None:
    with without_notifications(postgres_url) as url:
        plane = Plane(url)

        @plane.agent("double")
        async def double(ctx: Context, number: int) -> int:
            return number * 2

        await plane.open()
        working = asyncio.create_task(plane.run_worker())
        async with Plane(postgres_url) as other:
            job = await other.submit("double", {"number": 21})
            assert await job.result(timeout=PATIENCE_SECONDS) == 42
        plane.stop_workers()
        await asyncio.wait_for(working, 20)
        await plane.close()


async def test_a_submission_wakes_the_workers_of_its_queue_and_no_others(direct: Any) -> None:
    scene = Scene(direct, ManualClock())
    await scene.agent()
    mine = await listening(direct, queues=frozenset({"mine", "also mine"}))
    theirs = asyncio.Event()
    direct.signals.subscribe(theirs, queues=frozenset({"theirs"}))
    await scene.submit(queue="also mine")

    assert await heard(mine)
    assert not theirs.is_set()


async def test_a_cancellation_wakes_the_worker_that_runs_the_job(direct: Any) -> None:
    scene = Scene(direct, ManualClock())
    await scene.submit()
    worker = await scene.worker()
    [claimed] = await scene.claim(worker)
    mine = await listening(direct, worker_id=worker)
    other = asyncio.Event()
    direct.signals.subscribe(other, worker_id=await scene.worker())
    await direct.jobs.cancel(claimed.job_id, None, None)

    assert await heard(mine)
    assert not other.is_set()


async def test_a_key_that_becomes_free_wakes_the_workers(direct: Any) -> None:
    scene = Scene(direct, ManualClock())
    for _ in range(2):
        await scene.submit(serial_key="k")
    [claimed] = await scene.claim(await scene.worker())
    mine = await listening(direct, queues=frozenset({"default"}))
    await direct.jobs.cancel(claimed.job_id, None, None)

    assert await heard(mine)


async def test_a_promotion_wakes_the_workers_and_work_for_later_does_not(direct: Any, postgres_url: str) -> None:
    clock = ManualClock()
    await clock.rule(postgres_url)
    scene = Scene(direct, clock)
    await scene.agent()
    mine = await listening(direct, queues=frozenset({"default"}))
    await scene.submit(delay_seconds=60)
    await scene.store.audit.record([AuditEntry("NOTHING", "job", "1")])
    assert not await heard(mine, 0.3)

    await clock.advance(minutes=1)
    assert await direct.queue.promote_due(10) == 1
    assert await heard(mine)
