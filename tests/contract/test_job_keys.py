"""A job key belongs to the last job that was submitted with it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.clock import instant
from cortex_plane.jobs.model import JobId, KeyMode
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


async def keyed(scene: Scene, mode: KeyMode = "replace", **fields: Any) -> JobId:
    return await scene.submit(job_key="k", key_mode=mode, **fields)


async def test_replace_cancels_the_waiting_job_and_says_by_which(scene: Scene) -> None:
    old = await keyed(scene, payload='{"n":1}')
    new = await keyed(scene, payload='{"n":2}')

    assert [await scene.status(job) for job in (old, new)] == [JobStatus.CANCELLED, JobStatus.PENDING]
    last = (await scene.store.jobs.history(old))[-1]
    assert (last.cause, last.metadata) == ("replace", {"reason": f"replaced by {new}"})
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [new]


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
async def test_a_job_that_runs_is_not_replaced_and_loses_the_key(scene: Scene, mode: KeyMode) -> None:
    running = await scene.running(job_key="k")
    new = await keyed(scene, mode)
    newer = await keyed(scene, mode)

    assert await scene.status(running.job_id) is JobStatus.RUNNING
    assert [await scene.status(job) for job in (new, newer)] == [JobStatus.CANCELLED, JobStatus.PENDING]


async def test_preserve_run_at_keeps_the_time_of_the_first(scene: Scene) -> None:
    planned = scene.now + timedelta(hours=1)
    await keyed(scene, run_at=instant(planned))
    new = await keyed(scene, "preserve_run_at", run_at=instant(planned + timedelta(hours=5)))
    replaced = await keyed(scene, "replace", run_at=instant(planned + timedelta(hours=9)))

    assert (await scene.job(new)).run_at == planned
    assert (await scene.job(replaced)).run_at == planned + timedelta(hours=9)


async def test_unsafe_dedupe_answers_with_the_job_that_is_there(scene: Scene, raw: Raw) -> None:
    first = await keyed(scene, "unsafe_dedupe")
    assert await keyed(scene, "unsafe_dedupe") == first
    [claimed] = await scene.claim(await scene.worker())
    assert await keyed(scene, "unsafe_dedupe") == first

    await scene.finish(claimed, Done("1"))
    second = await keyed(scene, "unsafe_dedupe")
    assert second != first
    assert await raw("select count(*) from cortex.job") == [(2,)]


async def test_keys_of_tenants_do_not_meet(scene: Scene) -> None:
    tenant = await scene.tenant("acme")
    mine, theirs = await keyed(scene), await keyed(scene, tenant_id=tenant)

    assert [await scene.status(job) for job in (mine, theirs)] == [JobStatus.PENDING] * 2


@pytest.mark.parametrize("mode", ["replace", "unsafe_dedupe"])
async def test_many_at_once_leave_one_waiting(scene: Scene, raw: Raw, mode: KeyMode) -> None:
    await scene.agent()
    answers = await asyncio.gather(*(keyed(scene, mode) for _ in range(24)))

    waiting = [str(row[0]) for row in await raw("select id from cortex.job where status = 'PENDING'")]
    assert len(waiting) == 1
    if mode == "unsafe_dedupe":
        assert set(answers) == set(waiting)
    assert await raw("select count(*) from cortex.job where status not in ('PENDING', 'CANCELLED')") == [(0,)]


async def test_a_batch_keeps_its_order_and_its_keys(scene: Scene, raw: Raw) -> None:
    jobs = [await scene.new_job(job_key=key) for key in ("a", None, "a", "b")]
    answers = await scene.store.jobs.submit(jobs)

    assert answers == [job.id for job in jobs]
    assert [await scene.status(job.id) for job in jobs] == ["CANCELLED", "PENDING", "PENDING", "PENDING"]
    assert await raw("select count(*) from cortex.job_key") == [(2,)]
