"""What is added to a checkpoint that was written whole: fenced, repeated, replaced and billed as a whole one is."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from cortex_plane import Context
from cortex_plane.adapters.system import new_id
from cortex_plane.core.checkpoints import Blob, Checkpoint
from cortex_plane.core.errors import CortexError
from cortex_plane.core.jobs import Claimed, JobId
from cortex_plane.core.outcomes import Done, Interrupted
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import settle, slots
from tests.contract.support import Scene, again, ended, snapshot

pytestmark = pytest.mark.anyio

ONE, TWO = Blob("1" * 64, '{"large":1}'), Blob("2" * 64, '{"large":2}')


async def parts(scene: Scene, job_id: JobId) -> tuple[object, object]:
    stored = await scene.store.checkpoints.load(job_id)
    assert stored is not None
    return json.loads(stored.document), None if stored.added is None else json.loads(stored.added)


def adding(claimed: Claimed, step: int, previous: Checkpoint, **fields: Any) -> Checkpoint:
    return snapshot(claimed, f'{{"step":{step}}}', previous, added=f'{{"plus":{step}}}', **fields)


async def test_an_addition_leaves_the_document_and_a_document_replaces_both(scene: Scene) -> None:
    claimed = await scene.running()
    save = scene.store.checkpoints.save
    first = snapshot(claimed, '{"step":1}')
    second = adding(claimed, 2, first)
    third = adding(claimed, 3, second)
    fourth = snapshot(claimed, '{"step":4}', third)
    found = []
    for checkpoint in (first, second, third, fourth):
        assert await save([checkpoint]) == {claimed.run_id}
        found.append(await parts(scene, claimed.job_id))
        assert (await scene.job(claimed.job_id)).checkpoint_id == checkpoint.checkpoint_id

    assert found == [({"step": 1}, None), ({"step": 1}, {"plus": 2}), ({"step": 1}, {"plus": 3}), ({"step": 4}, None)]


@pytest.mark.parametrize("blobs", [(), (ONE,)], ids=["alone", "with a large result"])
async def test_an_addition_is_fenced_like_a_document(scene: Scene, blobs: tuple[Blob, ...]) -> None:
    zombie = await scene.running()
    save = scene.store.checkpoints.save
    first = snapshot(zombie, '{"step":1}')
    await save([first])
    second = adding(zombie, 2, first, blobs=blobs, cost_cents=3)
    assert await save([second]) == await save([second]) == {zombie.run_id}, "the same write, repeated"
    assert (await scene.job(zombie.job_id)).cost_cents == 3
    assert await save([adding(zombie, 9, first, blobs=blobs, cost_cents=9)]) == set(), "it does not follow the last one"
    fresh = await again(scene, zombie)
    assert await save([adding(zombie, 9, second, blobs=blobs, cost_cents=9)]) == set(), "another run has the job"
    assert await parts(scene, zombie.job_id) == ({"step": 1}, {"plus": 2})
    assert (await scene.job(zombie.job_id)).cost_cents == 3
    assert await save([snapshot(fresh, '{"step":3}', second, blobs=blobs)]) == {fresh.run_id}
    assert await parts(scene, zombie.job_id) == ({"step": 3}, None)


async def test_a_batch_may_hold_documents_and_additions(scene: Scene) -> None:
    claimed = [await scene.running() for _ in range(4)]
    firsts = [snapshot(one, '{"step":1}') for one in claimed]
    await scene.store.checkpoints.save(firsts)
    batch = [
        adding(claimed[0], 2, firsts[0], blobs=(ONE,), cost_cents=1),
        snapshot(claimed[1], '{"step":2}', firsts[1], blobs=(TWO,), cost_cents=2),
        adding(claimed[2], 2, firsts[3]),
        adding(claimed[3], 2, firsts[3], cost_cents=4),
    ]

    for _ in range(2):
        assert await scene.store.checkpoints.save(batch) == {one.run_id for one in (claimed[0], claimed[1], claimed[3])}

    assert [await parts(scene, one.job_id) for one in claimed] == [
        ({"step": 1}, {"plus": 2}),
        ({"step": 2}, None),
        ({"step": 1}, None),
        ({"step": 1}, {"plus": 2}),
    ]
    assert [(await scene.job(one.job_id)).cost_cents for one in claimed] == [1, 2, 0, 4]
    assert await scene.store.checkpoints.blobs(claimed[0].job_id, [ONE.sha256]) == {ONE.sha256: ONE.content}
    assert {one.job_id: one.added is None for one in await scene.store.checkpoints.live(None, 10)} == {
        one.job_id: place in (1, 2) for place, one in enumerate(claimed)
    }


async def test_an_addition_that_is_no_json_is_refused(scene: Scene) -> None:
    claimed = await scene.running()
    first = snapshot(claimed, '{"step":1}')
    await scene.store.checkpoints.save([first])
    for blobs in ((), (ONE,)):
        with pytest.raises(CortexError):
            await scene.store.checkpoints.save([snapshot(claimed, "{}", first, added="no JSON", blobs=blobs)])

    assert await parts(scene, claimed.job_id) == ({"step": 1}, None)


async def test_the_end_of_a_run_leaves_both_parts_unless_it_brings_a_document(scene: Scene) -> None:
    kept, replaced = await scene.running(), await scene.running()
    for claimed in (kept, replaced):
        first = snapshot(claimed, '{"step":1}')
        await scene.store.checkpoints.save([first])
        await scene.store.checkpoints.save([adding(claimed, 2, first)])
    last = ended(replaced, Interrupted())._replace(checkpoint='{"step":3}', checkpoint_id=new_id())
    await scene.store.queue.finish([ended(kept, Done()), last], "test")

    assert await parts(scene, kept.job_id) == ({"step": 1}, {"plus": 2})
    assert await parts(scene, replaced.job_id) == ({"step": 3}, None)


async def test_tokens_are_billed_once_however_a_checkpoint_is_written(plane: TestPlane) -> None:
    """Whole, or by what was added to it: every step of a long agent uses some, and a crash loses and repeats none."""
    await plane.billing.add("research")

    @plane.agent("report")
    async def report(ctx: Context) -> None:
        for number in range(40):
            await ctx.step(f"step {number}", use, ctx)

    async def use(ctx: Context) -> None:
        ctx.usage(prompt_tokens=10, completion_tokens=2, cents=1)

    await plane.schedules.add("nightly", "agent:report", "0 * * * *", billing_account="research")
    await plane.clock.advance(hours=1)
    plane.crash_after("step 35")
    await settle(plane)
    await settle(plane)

    assert plane.crashes == 1
    [slot] = await slots(plane, "nightly")
    blob = await plane.checkpoints.get(slot.run_id or "")
    assert blob["memory_context"]["token_usage"] == {"prompt_tokens": 400, "completion_tokens": 80}
    used = Counter[str]()
    for one in await plane.billing.receipts(slot.run_id or ""):
        used[one.unit] += one.quantity
    assert used == {"cents": 40, "prompt_tokens": 400, "completion_tokens": 80}
