"""Submitting: all or nothing, once for each id, in order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.clock import instant
from cortex_plane.errors import CortexError
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, NewJob
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


async def some(scene: Scene, count: int, **fields: Any) -> list[NewJob]:
    one = await scene.new_job(**fields)
    return [replace(one, id=JobId(new_id()), payload=f'{{"n":{n}}}') for n in range(count)]


async def test_a_submitted_job_is_pending_and_has_everything_that_was_asked(scene: Scene) -> None:
    policy = RetryPolicy("chain", 5, Backoff(2, 60, 3, jitter=False))
    job_id = await scene.submit(
        queue="mail",
        payload='{"to":["a","b"]}',
        priority=-7,
        max_retries=5,
        retry_policy=policy,
        timeout_seconds=1.5,
        serial_key="account:7",
        tags=("red", "blue"),
        created_by="ada",
    )

    job = await scene.job(job_id)
    assert job.status is JobStatus.PENDING
    assert (job.queue, job.payload, job.priority, job.max_retries) == ("mail", {"to": ["a", "b"]}, -7, 5)
    assert (job.serial_key, job.tags, job.created_by) == ("account:7", ["red", "blue"], "ada")
    assert (job.attempt, job.retry_count, job.crash_count, job.revision, job.cost_cents) == (0, 0, 0, 1, 0)
    assert (job.run_id, job.worker_id, job.started_at, job.finished_at, job.next_retry_at) == (None,) * 5
    assert job.created_at == job.queued_at == job.updated_at == scene.now
    assert job.worker_job_id is not None
    [claimed] = await scene.claim(await scene.worker(), queues=["mail"])
    assert (claimed.retry_policy, claimed.timeout_seconds, claimed.payload) == (policy, 1.5, {"to": ["a", "b"]})


async def test_the_soft_reference_names_the_queue_entry(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()

    assert await raw("select id from cortex.queue_entry") == [((await scene.job(job_id)).worker_job_id,)]


async def test_one_bad_job_keeps_all_the_others_out(scene: Scene) -> None:
    good, bad = await some(scene, 2)
    with pytest.raises(CortexError):
        await scene.store.jobs.submit([good, replace(bad, queue="")])

    assert await scene.store.jobs.list() == []
    assert await scene.store.queue.depths() == {}


async def test_the_same_ids_a_second_time_change_nothing(scene: Scene) -> None:
    jobs = await some(scene, 3)
    await scene.store.jobs.submit(jobs)
    before = [await scene.job(job.id) for job in jobs]

    await scene.clock.advance(seconds=1)
    await scene.store.jobs.submit([replace(job, payload='{"other": 1}') for job in jobs])

    assert [await scene.job(job.id) for job in jobs] == before
    assert await scene.store.queue.depths() == {"default": {"ready": 3}}
    assert len(await scene.store.jobs.history(jobs[0].id)) == 1


async def test_ids_that_are_known_and_ids_that_are_new_may_come_together(scene: Scene) -> None:
    first, second, third = await some(scene, 3)
    await scene.store.jobs.submit([first])
    await scene.store.jobs.submit([first, second, third])

    assert [one.job_id for one in await scene.claim(await scene.worker())] == [first.id, second.id, third.id]


async def test_the_same_ids_after_the_job_ran_do_not_queue_it_again(scene: Scene) -> None:
    [job] = await some(scene, 1)
    await scene.store.jobs.submit([job])
    worker = await scene.worker()
    await scene.claim(worker)
    await scene.store.jobs.submit([job])

    assert await scene.claim(worker) == []
    assert await scene.store.queue.depths() == {}


async def test_five_thousand_jobs_are_stored_together_and_claimed_in_their_order(scene: Scene) -> None:
    jobs = await some(scene, 5_000)
    await scene.store.jobs.submit(jobs)
    worker = await scene.worker()

    assert await scene.store.queue.depths() == {"default": {"ready": 5_000}}
    claimed = [one.payload["n"] for _ in range(10) for one in await scene.claim(worker, 500)]
    assert claimed == list(range(5_000))


async def test_positions_are_spaced_by_a_hundred_and_grow(scene: Scene) -> None:
    jobs = await some(scene, 3)
    await scene.store.jobs.submit(jobs[:2])
    await scene.store.jobs.submit(jobs[2:])

    first, second, third = [(await scene.job(job.id)).position for job in jobs]
    assert first >= 100
    assert second - first == third - second == 100


async def test_a_job_with_run_at_waits_until_then(scene: Scene) -> None:
    at = scene.now + timedelta(minutes=5)
    job_id = await scene.submit(run_at=instant(at))
    worker = await scene.worker()

    assert await scene.claim(worker) == []
    assert (await scene.job(job_id)).run_at == at
    await scene.clock.advance(minutes=4, seconds=59)
    assert await scene.store.queue.promote_due(10) == 0
    await scene.clock.advance(seconds=1)
    assert await scene.store.queue.promote_due(10) == 1
    assert [one.job_id for one in await scene.claim(worker)] == [job_id]


async def test_a_delay_counts_from_the_databases_time(scene: Scene) -> None:
    job_id = await scene.submit(delay_seconds=90.5)

    assert (await scene.job(job_id)).run_at == scene.now + timedelta(seconds=90.5)
    assert await scene.store.queue.depths() == {"default": {"later": 1}}


@pytest.mark.parametrize("seconds", [0.57, 1.001, 1e-6, 86_400.123456])
async def test_a_delay_is_kept_to_the_microsecond(scene: Scene, seconds: float) -> None:
    job_id = await scene.submit(delay_seconds=seconds)

    assert (await scene.job(job_id)).run_at == scene.now + timedelta(seconds=seconds)


async def test_a_run_at_that_has_passed_is_ready_at_once(scene: Scene) -> None:
    await scene.submit(run_at=instant(scene.now - timedelta(days=1)))

    assert await scene.store.queue.depths() == {"default": {"ready": 1}}


async def test_a_job_that_falls_due_keeps_the_place_of_its_submission(scene: Scene) -> None:
    late = await scene.submit(delay_seconds=60)
    early = await scene.submit()
    await scene.clock.advance(minutes=1)
    await scene.store.queue.promote_due(10)

    assert [one.job_id for one in await scene.claim(await scene.worker())] == [late, early]


@pytest.mark.parametrize("field", [{"max_retries": 101}, {"priority": 1_000_001}, {"queue": ""}, {"timeout_seconds": 0.0}])
async def test_the_database_keeps_its_own_limits(scene: Scene, field: dict[str, Any]) -> None:
    with pytest.raises(CortexError, match="refused"):
        await scene.submit(**field)

    assert await scene.store.jobs.list() == []
