"""Checkpoints are fenced like every other write of a worker."""

from __future__ import annotations

import pytest

from cortex_plane.core.outcomes import Checkpoint, Interrupted
from tests.contract.support import Raw, Scene, run_ids

pytestmark = pytest.mark.anyio


async def test_a_checkpoint_is_saved_only_by_the_open_run(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    save = scene.store.queue.save_checkpoints
    assert await save([Checkpoint(claimed.job_id, claimed.run_id, '{"step":1}')]) == {claimed.run_id}

    assert await save([Checkpoint(claimed.job_id, run_ids(1)[0], '{"step":9}')]) == set()
    await scene.finish(claimed, Interrupted())
    assert await save([Checkpoint(claimed.job_id, claimed.run_id, '{"step":9}')]) == set()
    [(document,)] = await raw(f"select cast(checkpoint as text) from cortex.job where id = '{claimed.job_id}'")
    assert document.replace(" ", "") == '{"step":1}'


async def test_a_batch_of_checkpoints_keeps_the_good_ones_and_names_them_by_run(scene: Scene) -> None:
    """The stale run and the open run of one job may meet in one batch; only one of them was saved."""
    stale = await scene.running()
    await scene.finish(stale, Interrupted())
    [fresh] = await scene.claim(await scene.worker())
    batch = [Checkpoint(stale.job_id, stale.run_id, '{"old":1}'), Checkpoint(fresh.job_id, fresh.run_id, '{"new":1}')]

    assert await scene.store.queue.save_checkpoints(batch) == {fresh.run_id}


async def test_a_checkpoint_is_no_transition_and_writes_no_history(scene: Scene) -> None:
    claimed = await scene.running()
    before = await scene.store.jobs.history(claimed.job_id)
    await scene.clock.advance(seconds=1)
    await scene.store.queue.save_checkpoints([Checkpoint(claimed.job_id, claimed.run_id, "[1,2]")])

    assert await scene.store.jobs.history(claimed.job_id) == before
    job = await scene.job(claimed.job_id)
    assert (job.run_id, job.updated_at) == (claimed.run_id, scene.now)


async def test_a_large_batch_of_checkpoints_is_saved_at_once(scene: Scene) -> None:
    for _ in range(200):
        await scene.submit()
    claimed = await scene.claim(await scene.worker(), 200)
    saved = await scene.store.queue.save_checkpoints([Checkpoint(one.job_id, one.run_id, "{}") for one in claimed])

    assert saved == {one.run_id for one in claimed}
