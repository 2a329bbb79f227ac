"""Lists: newest first, page after page, by state, agent and queue; and finding by the first part of an id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, JobSummary
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import FATAL, Raw, Scene
from tests.contract.test_repair import triggers_off

pytestmark = pytest.mark.anyio

MOST_PAGES = 50


async def pages(scene: Scene, limit: int, **filters: Any) -> AsyncIterator[list[JobSummary]]:
    before: JobId | None = None
    for _ in range(MOST_PAGES):
        page = await scene.store.jobs.list(before=before, limit=limit, **filters)
        if not page:
            return
        yield page
        before = page[-1].id
    raise AssertionError("the pages never end")


async def ids(scene: Scene, limit: int = 50, **filters: Any) -> list[JobId]:
    return [job.id async for page in pages(scene, limit, **filters) for job in page]


@pytest.fixture
async def jobs(scene: Scene, raw: Raw) -> dict[JobStatus, list[JobId]]:
    """Two of each state, mixed."""
    found: dict[JobStatus, list[JobId]] = {status: [] for status in JobStatus}
    for status in [*JobStatus, *reversed(JobStatus)]:
        if status is JobStatus.PENDING:
            found[status].append(await scene.submit(delay_seconds=60))
        else:
            found[status].append(await scene.in_state(status, raw))
    return found


@pytest.mark.parametrize("status", JobStatus)
async def test_jobs_of_one_state_are_listed_newest_first(
    scene: Scene, jobs: dict[JobStatus, list[JobId]], status: JobStatus
) -> None:
    assert await ids(scene, status=status) == jobs[status][::-1]
    assert await ids(scene, limit=1, status=status) == jobs[status][::-1]


async def test_all_jobs_are_listed_newest_first_whatever_the_page(scene: Scene, jobs: dict[JobStatus, list[JobId]]) -> None:
    everything = sorted((job_id for of_state in jobs.values() for job_id in of_state), reverse=True)

    for limit in (1, 3, 50):
        assert await ids(scene, limit=limit) == everything


@pytest.mark.parametrize("status", [None, *JobStatus])
async def test_a_list_can_be_limited_to_an_agent_and_a_queue(scene: Scene, raw: Raw, status: JobStatus | None) -> None:
    """Every combination of filters, on whichever statement it is served by."""
    wanted: dict[tuple[str, str], list[JobId]] = {}
    for job_type in ("echo", "mail"):
        for queue in ("red", "blue"):
            for _ in range(2):
                job_id = await _in_state(scene, raw, status or JobStatus.PENDING, job_type, queue)
                wanted.setdefault((job_type, queue), []).insert(0, job_id)
    echo, mail = await scene.agent("echo"), await scene.agent("mail")

    assert await ids(scene, status=status, agent_id=echo, queue="red") == wanted["echo", "red"]
    assert await ids(scene, status=status, agent_id=mail) == wanted["mail", "blue"] + wanted["mail", "red"]
    assert await ids(scene, limit=1, status=status, queue="blue") == wanted["mail", "blue"] + wanted["echo", "blue"]
    assert await ids(scene, status=status, queue="green") == []


async def _in_state(scene: Scene, raw: Raw, status: JobStatus, job_type: str, queue: str) -> JobId:
    """As `scene.in_state`, for any agent and queue: the agent and the queue are swapped afterwards by hand."""
    job_id = await scene.in_state(status, raw)
    agent_id = await scene.agent(job_type)
    async with triggers_off(raw):
        await raw(
            f"update cortex.job set agent_id = '{agent_id}', job_type = '{job_type}', queue = '{queue}' where id = '{job_id}'"
        )
        await raw(f"update cortex.queue_entry set job_type = '{job_type}', queue = '{queue}' where job_id = '{job_id}'")
    return job_id


async def test_a_row_of_a_list_says_what_a_person_wants_to_see(scene: Scene, raw: Raw) -> None:
    failed = await scene.in_state(JobStatus.FAILED, raw)
    retry = await scene.in_state(JobStatus.RETRY, raw)

    waiting, ended = await scene.store.jobs.list()
    assert (ended.id, ended.status, ended.error_message, ended.attempt) == (failed, JobStatus.FAILED, "boom", 1)
    assert (ended.job_type, ended.queue, ended.priority, ended.finished_at) == ("echo", "default", 0, scene.now)
    assert (waiting.id, waiting.wait_reason, waiting.finished_at) == (retry, "retry", None)


async def test_a_retried_job_is_listed_once(scene: Scene, raw: Raw) -> None:
    """A job that was RETRY, RUNNING and FAILED has many lines of history; a list shows it once."""
    job_id = await scene.in_state(JobStatus.RETRY, raw)
    await scene.clock.advance(minutes=1)
    await scene.store.queue.promote_due(10)
    [claimed] = await scene.claim(await scene.worker())
    await scene.finish(claimed, FATAL)

    assert await ids(scene, status=JobStatus.FAILED) == [job_id]
    assert await ids(scene, status=JobStatus.RETRY) == []
    assert await ids(scene) == [job_id]


@pytest.mark.parametrize("length", [8, 9, 18, 27, 36])
async def test_ids_are_found_by_their_first_part(scene: Scene, length: int) -> None:
    base = new_id()
    job_id = await scene.submit(id=JobId(base))

    assert await scene.store.jobs.find(job_id[:length]) == [job_id]


async def test_a_prefix_is_compared_as_text_and_not_as_a_pattern(scene: Scene) -> None:
    wanted = [JobId(f"abcd{digit}000-0000-7000-8000-000000000000") for digit in "0189f"]
    others = [JobId("abce0000-0000-7000-8000-000000000000"), JobId("abccffff-0000-7000-8000-000000000000")]
    for job_id in [*others, *wanted]:
        await scene.submit(id=job_id)

    assert await scene.store.jobs.find("abcd") == wanted
    assert await scene.store.jobs.find("abcd8") == [wanted[2]]
    assert await scene.store.jobs.find("ffff") == []


async def test_at_most_five_are_found(scene: Scene) -> None:
    for digit in "0123456":
        await scene.submit(id=JobId(f"abcd{digit}000-0000-7000-8000-000000000000"))

    assert len(await scene.store.jobs.find("abcd")) == 5
