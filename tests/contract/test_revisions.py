"""Who has seen a job may ask for a change of just that: of two who saw the same, one makes it, and the other is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cortex_plane.errors import CortexError, RevisionChanged, StillRunning
from cortex_plane.ids import new_id
from cortex_plane.jobs.changes import cancel_job, retry_job
from cortex_plane.jobs.model import JobId
from cortex_plane.queues.model import Place
from cortex_plane.queues.service import move_job, set_priority
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

Change = Callable[[Scene, JobId, int], Awaitable[object]]


async def cancel(scene: Scene, job_id: JobId, revision: int) -> None:
    await cancel_job(scene.store, job_id, revision=revision)


async def move(scene: Scene, job_id: JobId, revision: int) -> None:
    await move_job(scene.store, job_id, Place.FRONT, revision=revision)


async def rank(scene: Scene, job_id: JobId, revision: int) -> None:
    await set_priority(scene.store, job_id, 5, revision=revision)


async def retry(scene: Scene, job_id: JobId, revision: int) -> None:
    await retry_job(scene.store, new_id, job_id, revision=revision)


async def tried(change: Awaitable[object]) -> type[CortexError] | None:
    try:
        await change
    except CortexError as error:
        return type(error)
    return None


@pytest.mark.parametrize("change", [cancel, move, rank])
@pytest.mark.parametrize("other", [cancel, move, rank])
async def test_of_two_changes_of_what_was_seen_one_is_made(scene: Scene, change: Change, other: Change) -> None:
    await scene.submit()
    job_id = await scene.submit()
    seen = (await scene.job(job_id)).revision

    outcomes = await asyncio.gather(tried(change(scene, job_id, seen)), tried(other(scene, job_id, seen)))

    assert outcomes.count(None) == 1, outcomes
    assert (await scene.job(job_id)).revision == seen + 1


@pytest.mark.parametrize("change", [cancel, move, rank])
async def test_a_change_of_what_was_seen_too_early_is_refused_and_nothing_is_changed(scene: Scene, change: Change) -> None:
    job_id = await scene.submit()
    await set_priority(scene.store, job_id, 3)
    before = await scene.job(job_id)

    with pytest.raises(RevisionChanged) as refused:
        await change(scene, job_id, before.revision - 1)

    assert refused.value.revision == before.revision
    assert await scene.job(job_id) == before


async def test_a_move_and_a_new_priority_count_the_revision_up_and_leave_the_history_alone(scene: Scene) -> None:
    await scene.submit()
    job_id = await scene.submit()
    await move_job(scene.store, job_id, Place.FRONT)
    await set_priority(scene.store, job_id, 7)

    assert (await scene.job(job_id)).revision == 3
    assert [entry.revision for entry in await scene.store.jobs.history(job_id)] == [1]
    await cancel_job(scene.store, job_id)
    assert [entry.revision for entry in await scene.store.jobs.history(job_id)] == [1, 4]


async def test_of_two_retries_of_what_was_seen_one_is_made_also_when_the_first_has_ended(scene: Scene) -> None:
    job_id = await scene.submit()
    await cancel_job(scene.store, job_id)
    seen = (await scene.job(job_id)).revision

    outcomes = await asyncio.gather(tried(retry(scene, job_id, seen)), tried(retry(scene, job_id, seen)))
    [_, retried] = await scene.store.jobs.chain(job_id)
    await cancel_job(scene.store, retried.id)

    assert outcomes.count(None) == 1, outcomes
    assert await tried(retry(scene, job_id, seen)) is RevisionChanged
    assert len(await scene.store.jobs.chain(job_id)) == 2


async def test_what_was_seen_before_its_end_is_not_retried(scene: Scene) -> None:
    job_id = await scene.submit()
    assert await tried(retry(scene, job_id, 1)) is StillRunning
    await cancel_job(scene.store, job_id)

    assert await tried(retry(scene, job_id, 1)) is RevisionChanged
    assert await tried(retry(scene, job_id, 2)) is None


async def test_a_retry_into_which_another_slips_is_refused_though_that_one_has_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await scene.submit()
    await cancel_job(scene.store, job_id)
    jobs = scene.store.jobs
    look = jobs.chain_end

    async def look_late(wanted: JobId) -> object:
        monkeypatch.setattr(jobs, "chain_end", look)
        await cancel_job(scene.store, await retry_job(scene.store, new_id, wanted))
        return await look(wanted)

    monkeypatch.setattr(jobs, "chain_end", look_late)

    assert await tried(retry(scene, job_id, 2)) is StillRunning
    assert len(await jobs.chain(job_id)) == 2
