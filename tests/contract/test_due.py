"""What falls due: promoted in small batches, and known in advance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Interrupted
from tests.contract.support import BOOM, Scene

pytestmark = pytest.mark.anyio


async def test_nothing_is_due_when_nothing_waits(scene: Scene) -> None:
    await scene.submit()

    assert await scene.store.queue.next_due_in() is None
    assert await scene.store.queue.promote_due(10) == 0


async def test_the_next_due_entry_is_known_to_the_second_and_negative_when_overdue(scene: Scene) -> None:
    await scene.submit(delay_seconds=90)
    await scene.submit(delay_seconds=30.5)

    assert await scene.store.queue.next_due_in() == pytest.approx(30.5)
    await scene.clock.advance(seconds=31)
    assert await scene.store.queue.next_due_in() == pytest.approx(-0.5)
    await scene.store.queue.promote_due(10)
    assert await scene.store.queue.next_due_in() == pytest.approx(59)


async def test_what_is_due_is_promoted_oldest_first_up_to_the_limit(scene: Scene) -> None:
    jobs = [await scene.submit(delay_seconds=seconds) for seconds in (50, 10, 40, 20, 30)]
    await scene.clock.advance(seconds=45)

    assert await scene.store.queue.promote_due(3) == 3
    ready = {one.job_id for one in await scene.claim(await scene.worker())}
    assert ready == {jobs[1], jobs[3], jobs[4]}
    assert await scene.store.queue.promote_due(3) == 1
    assert await scene.store.queue.promote_due(3) == 0
    assert await scene.store.queue.depths() == {"default": {"ready": 1, "later": 1}}


async def test_a_due_retry_sorts_like_any_waiting_job(scene: Scene) -> None:
    claimed = await scene.running()
    fresh = await scene.submit()
    urgent = await scene.submit(priority=1)
    await scene.finish(claimed, BOOM)
    await scene.clock.advance(seconds=1)
    await scene.store.queue.promote_due(10)

    assert [one.job_id for one in await scene.claim(await scene.worker())] == [urgent, claimed.job_id, fresh]


async def test_a_job_that_is_due_at_once_needs_no_promotion(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Interrupted())

    assert await scene.store.queue.next_due_in() is None
    assert await scene.store.queue.depths() == {"default": {"ready": 1}}


async def test_of_one_serial_key_only_the_first_that_fell_due_becomes_ready(scene: Scene) -> None:
    jobs = [await scene.submit(delay_seconds=seconds, serial_key="k") for seconds in (3, 1, 2)]
    await scene.clock.advance(seconds=5)
    assert await scene.store.queue.promote_due(10) == 3

    assert await scene.store.queue.depths() == {"default": {"blocked": 2, "ready": 1}}
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [jobs[0]]


async def test_a_large_backlog_is_promoted_completely(scene: Scene) -> None:
    one = await scene.new_job(delay_seconds=1.0)
    await scene.store.jobs.submit([replace(one, id=JobId(new_id())) for _ in range(1_000)])
    await scene.clock.advance(seconds=2)
    promoted = [await scene.store.queue.promote_due(300) for _ in range(5)]

    assert promoted == [300, 300, 300, 100, 0]
    assert await scene.store.queue.depths() == {"default": {"ready": 1_000}}
