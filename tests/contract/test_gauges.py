"""What operators watch: how much waits, runs and is late, and for how long."""

from __future__ import annotations

import pytest

from cortex_plane.clock import SECOND
from cortex_plane.metrics.model import Waiting
from tests.contract.approval_scene import Desk
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio


async def test_jobs_that_wait_and_run_are_counted_by_queue_and_state(scene: Scene) -> None:
    await scene.submit(queue="mail")
    await scene.clock.advance(seconds=30)
    await scene.submit(queue="mail")
    await scene.submit(queue="mail", delay_seconds=60.0)
    await scene.submit()
    await scene.claim(await scene.worker(), 1)

    figures = await scene.store.gauges.figures()

    assert set(figures.waiting) == {Waiting("mail", "ready", 2, 30.0), Waiting("mail", "later", 1, 0.0)}
    assert figures.running == {"default": 1}
    assert (figures.workers_live, figures.gate_open, figures.slots_late) == (1, True, 0)


async def test_what_has_ended_is_not_counted(scene: Scene) -> None:
    job_id = await scene.submit()
    await scene.store.jobs.cancel(job_id, None, None)

    figures = await scene.store.gauges.figures()

    assert (figures.waiting, figures.running, figures.approvals) == ((), {}, ())


async def test_jobs_that_wait_for_people_are_counted_with_their_age(desk: Desk) -> None:
    await desk.asked(await desk.user("ann", "approver"))
    await desk.scene.clock.advance(minutes=2)

    [waiting] = (await desk.scene.store.gauges.figures()).approvals

    assert (waiting.state, waiting.jobs, waiting.oldest_seconds) == ("waiting_for_approval", 1, 120.0)


async def test_how_long_a_job_was_due_before_it_began_is_told_when_it_has(scene: Scene) -> None:
    worker = await scene.worker()
    at_once = await scene.submit()
    planned = await scene.submit(run_at=scene.clock.now() + 10 * SECOND)
    assert await scene.store.gauges.pick_up_seconds(at_once) is None

    await scene.clock.advance(seconds=12)
    await scene.store.queue.promote_due(10)
    await scene.claim(worker, 2)

    assert await scene.store.gauges.pick_up_seconds(at_once) == 12.0
    assert await scene.store.gauges.pick_up_seconds(planned) == 2.0
