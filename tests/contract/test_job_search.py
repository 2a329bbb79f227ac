"""Looking for jobs: each filter has an index of its own, so what is rare is found on the first page; each page is bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs import search as job_search
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.search import JobFilter
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.model import first_id_at, moment_in
from tests.contract.approval_scene import Desk
from tests.contract.support import BOOM, Raw, Scene

pytestmark = pytest.mark.anyio

LOOKED = 20


@pytest.fixture(autouse=True)
def look_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_search, "LOOKED_THROUGH", LOOKED)
    monkeypatch.setattr(job_search, "BATCH", LOOKED)


async def crowd(scene: Scene, **fields: object) -> list[JobId]:
    """More jobs than a page looks at."""
    sample, now = await scene.new_job("noise", **fields), moment_in(JobId(new_id()))
    moments = [now + timedelta(milliseconds=number) for number in range(1, 3 * LOOKED + 1)]
    return await scene.store.jobs.submit([replace(sample, id=JobId(first_id_at(at)[:14] + new_id()[14:])) for at in moments])


async def found(scene: Scene, wanted: JobFilter) -> list[JobId]:
    return [one.summary.id for one in (await scene.store.job_search.page(wanted, limit=5)).jobs]


async def test_jobs_are_found_by_tag_queue_tenant_and_agent_behind_any_crowd(scene: Scene) -> None:
    tagged = await scene.submit(tags=("rare", "other"))
    queued = await scene.submit(queue="rare")
    owned = await scene.submit(tenant_id=(tenant := await scene.tenant("rare")))
    mine = await scene.submit("rare")
    await crowd(scene, tags=("common",))

    assert await found(scene, JobFilter(tag="rare")) == [tagged]
    assert await found(scene, JobFilter(queue="rare")) == [queued]
    assert await found(scene, JobFilter(tenant_id=tenant)) == [owned]
    assert await found(scene, JobFilter(agent_id=await scene.agent("rare"))) == [mine]


async def test_jobs_are_found_by_state_behind_any_crowd(desk: Desk) -> None:
    scene = desk.scene
    asked = (await desk.asked(await desk.user("ann", "approver"))).job_id
    failed = await scene.running(queue="failing")
    await scene.finish(failed, replace(BOOM, retryable=False))
    running = await scene.running(queue="running")
    for one in await crowd(scene):
        await scene.store.jobs.cancel(one, None, None) if one.endswith(("0", "1")) else None

    assert await found(scene, JobFilter(status=JobStatus.WAITING_FOR_APPROVAL)) == [asked]
    assert await found(scene, JobFilter(status=JobStatus.RUNNING)) == [running.job_id]
    assert failed.job_id in await found(scene, JobFilter(status=JobStatus.FAILED))
    assert [job.id for job in await scene.store.jobs.list(status=JobStatus.WAITING_FOR_APPROVAL)] == [asked]


async def test_jobs_of_an_earlier_time_are_found_behind_any_crowd(scene: Scene) -> None:
    first = await scene.submit()
    await scene.clock.advance(hours=1)
    second = await scene.submit()
    await scene.clock.advance(hours=1)
    await crowd(scene)
    until = scene.now - timedelta(minutes=30)

    assert await found(scene, JobFilter(until=until)) == [second, first]
    assert await found(scene, JobFilter(until=until, since=until - timedelta(minutes=45))) == [second]


async def test_a_queue_that_has_no_jobs_is_known_to_have_none(scene: Scene) -> None:
    await crowd(scene)
    page = await scene.store.job_search.page(JobFilter(queue="nosuch"))

    assert (page.jobs, page.next_before) == ([], None)


async def test_a_page_that_looked_enough_says_where_to_go_on(scene: Scene) -> None:
    wanted = await scene.submit(payload='{"word":"needle"}')
    await crowd(scene)
    pages, before = 0, None
    while not (page := await scene.store.job_search.page(JobFilter(text="needle"), before=before)).jobs:
        pages, before = pages + 1, page.next_before
        assert before is not None

    assert [one.summary.id for one in page.jobs] == [wanted]
    assert pages == 3


async def test_tags_of_a_deleted_job_are_gone(scene: Scene, raw: Raw) -> None:
    job = await scene.submit(tags=("rare", "rare"))
    assert await found(scene, JobFilter(tag="rare")) == [job]
    await raw(f"delete from cortex.job where id = '{job}'")

    assert await found(scene, JobFilter(tag="rare")) == []
    assert await raw("select count(*) from cortex.job_tag") == [(0,)]
