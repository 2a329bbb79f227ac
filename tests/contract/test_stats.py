"""What people who watch are told: bounded looks that agree with what happened."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import as_datetime
from cortex_plane.jobs.events import NewEvent
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.service import look_at_failures, look_at_load, look_into_queue
from cortex_plane.queues.model import Place
from tests.contract.support import BOOM, Scene

pytestmark = pytest.mark.anyio

LONG_AGO = timedelta(days=3650)


async def test_recent_jobs_are_told_with_when_they_began_and_ended(scene: Scene) -> None:
    done, waiting = await scene.submit(), await scene.submit(delay_seconds=60.0)
    worker = await scene.worker()
    await scene.clock.advance(seconds=2)
    [claimed] = await scene.claim(worker, 1)
    await scene.clock.advance(seconds=3)
    await scene.finish(claimed, Done("1"))

    jobs, complete = await scene.store.stats.recent(as_datetime(scene.clock.now()) - LONG_AGO, 100)

    assert complete
    assert [(job.id, job.status) for job in jobs] == [(done, JobStatus.COMPLETED), (waiting, JobStatus.PENDING)]
    first = jobs[0]
    assert first.started_at is not None
    assert first.ended_at is not None
    assert first.started_at - first.created_at == timedelta(seconds=2)
    assert first.ended_at - first.started_at == timedelta(seconds=3)
    assert (jobs[1].started_at, jobs[1].ended_at) == (None, None)


async def test_no_more_history_is_read_than_was_asked_for(scene: Scene) -> None:
    ids = [await scene.submit() for _ in range(5)]

    jobs, complete = await scene.store.stats.recent(as_datetime(scene.clock.now()) - LONG_AGO, 3)

    assert [job.id for job in jobs] == ids[2:]
    assert not complete


async def test_the_planes_own_jobs_are_not_told(scene: Scene) -> None:
    await scene.submit(queue="cortex")

    jobs, _ = await scene.store.stats.recent(as_datetime(scene.clock.now()) - LONG_AGO, 100)

    assert jobs == []


async def test_failures_are_told_with_their_messages_and_cancelled_jobs_are_not(scene: Scene) -> None:
    failed, cancelled = await scene.submit(max_retries=0), await scene.submit(queue="other")
    worker = await scene.worker()
    [claimed] = await scene.claim(worker, 1)
    await scene.finish(claimed, BOOM)
    await scene.store.jobs.cancel(cancelled, None, None)

    found = await scene.store.stats.failures(as_datetime(scene.clock.now()) - LONG_AGO, 100)
    by_agent = await look_at_failures(scene.store, scene.clock)

    assert [one.job_id for one in found] == [failed]
    assert found[0].error_message
    assert [(one.agent, one.failures) for one in by_agent] == [(found[0].job_type, 1)]


async def test_a_failure_of_more_than_an_hour_ago_is_no_news(scene: Scene) -> None:
    await scene.submit(max_retries=0)
    [claimed] = await scene.claim(await scene.worker(), 1)
    await scene.finish(claimed, BOOM)
    await scene.clock.advance(minutes=61)

    assert await look_at_failures(scene.store, scene.clock) == []


async def test_the_load_counts_the_jobs_of_one_tenant_or_of_all(scene: Scene) -> None:
    await scene.submit()
    tenants = await scene.store.tenants.list()

    everybody = await look_at_load(scene.store, scene.clock)
    nobody = await look_at_load(scene.store, scene.clock, tenants[0].id.replace("0", "1"))  # type: ignore[arg-type]

    assert (everybody.submitted, nobody.submitted) == (1, 0)


async def test_the_head_of_a_queue_is_told_in_the_order_of_claims(scene: Scene) -> None:
    low, first, second = await scene.submit(priority=-5), await scene.submit(), await scene.submit()
    urgent = await scene.submit(priority=5)
    await scene.submit(delay_seconds=60.0)
    await scene.submit(queue="other")
    await scene.store.order.move(second, Place.BEFORE, first, AuditEntry("JOB_MOVED", "job", second))

    entries = await look_into_queue(scene.store, "default", 10)
    [claimed] = [one.job_id for one in await scene.claim(await scene.worker(), 1)]

    assert [entry.job_id for entry in entries] == [urgent, second, first, low]
    assert claimed == urgent
    assert [entry.job_id for entry in await look_into_queue(scene.store, "default", 2)] == [second, first]


async def test_a_queue_whose_tenants_take_turns_is_told_too(scene: Scene) -> None:
    from dataclasses import replace

    from cortex_plane.queues.model import Scope

    entry = AuditEntry("FAIR_SHARE_SET", "queue", "default")
    await scene.store.controls.change(Scope.QUEUE, "default", lambda control: replace(control, fair_share=True), entry)
    ids = [await scene.submit() for _ in range(3)]

    assert [one.job_id for one in await look_into_queue(scene.store, "default", 10)] == ids


async def test_the_last_words_of_a_job_come_newest_first(scene: Scene) -> None:
    job_id = await scene.submit()
    [claimed] = await scene.claim(await scene.worker(), 1)
    events = [NewEvent(job_id, claimed.run_id, scene.clock.now(), "log", f'{{"message":"{n}"}}') for n in range(5)]
    await scene.store.events.add(events)

    last = await scene.store.stats.last_events(job_id, 2)

    assert [event.data["message"] for event in last] == ["4", "3"]


async def test_the_runs_of_each_worker_are_counted(scene: Scene) -> None:
    for _ in range(3):
        await scene.submit()
    busy, idle = await scene.worker(), await scene.worker()
    await scene.claim(busy, 2)

    runs = await scene.store.stats.runs_of_workers()

    assert (runs.get(busy), runs.get(idle)) == (2, None)
