"""An operator's retry: a linked job at the end of the chain, one for each job that ended."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.errors import JobNotFound, StillRunning
from cortex_plane.ids import new_id
from cortex_plane.jobs.changes import retry_job
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import TERMINAL, JobStatus
from tests.contract.support import BOOM, FATAL, Raw, Refused, Scene

pytestmark = pytest.mark.anyio

CHAIN = RetryPolicy("chain", 2, Backoff(jitter=False))


@pytest.mark.parametrize("status", sorted(TERMINAL))
async def test_a_finished_job_is_retried_as_a_linked_job_with_all_its_retries(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id, successor = await scene.in_state(status, raw), JobId(new_id())
    before = await scene.job(job_id)
    await scene.clock.advance(seconds=5)
    assert await scene.store.jobs.retry(job_id, successor, "ada")

    retried = await scene.job(successor)
    assert (retried.status, retried.retry_of, retried.retry_count, retried.attempt) == (JobStatus.PENDING, job_id, 0, 0)
    for name in ("payload", "queue", "priority", "max_retries", "tags", "created_by", "agent_id", "serial_key", "tenant_id"):
        assert getattr(retried, name) == getattr(before, name), name
    assert retried.created_at == scene.now
    after = await scene.job(job_id)
    assert (after.status, after.retried_as, after.updated_at) == (status, successor, before.updated_at)
    [entry] = await scene.store.jobs.history(successor)
    assert (entry.cause, entry.actor) == ("retry", "ada")
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [successor]


@pytest.mark.parametrize("status", [status for status in JobStatus if status not in TERMINAL])
async def test_a_job_that_has_not_ended_is_not_retried(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id = await scene.in_state(status, raw)

    assert not await scene.store.jobs.retry(job_id, JobId(new_id()), None)
    with pytest.raises(StillRunning, match="cortex jobs cancel"):
        await retry_job(scene.store, new_id, job_id)
    assert len(await scene.store.jobs.list()) == 1


async def test_a_job_is_retried_once_however_often_it_is_asked(scene: Scene, raw: Raw) -> None:
    job_id, successor = await scene.in_state(JobStatus.FAILED, raw), JobId(new_id())

    assert await scene.store.jobs.retry(job_id, successor, None)
    assert not await scene.store.jobs.retry(job_id, JobId(new_id()), None)
    assert not await scene.store.jobs.retry(job_id, successor, None)
    assert (await scene.job(job_id)).retried_as == successor
    assert len(await scene.store.jobs.list()) == 2


async def test_of_simultaneous_retries_one_wins_and_the_others_learn_its_name(scene: Scene, raw: Raw) -> None:
    job_id = await scene.in_state(JobStatus.FAILED, raw)
    answers = await asyncio.gather(*(retry_job(scene.store, new_id, job_id) for _ in range(8)), return_exceptions=True)

    [winner] = [answer for answer in answers if isinstance(answer, str)]
    losers = [answer for answer in answers if isinstance(answer, StillRunning)]
    assert len(losers) == 7
    assert all(loser.live_id == winner for loser in losers)


async def test_a_retry_of_an_older_job_links_to_the_end_of_its_chain(scene: Scene) -> None:
    worker = await scene.worker()
    first = await scene.submit()
    chain = [first]
    for _ in range(3):
        [claimed] = await scene.claim(worker)
        await scene.finish(claimed, FATAL)
        chain.append(await retry_job(scene.store, new_id, first))

    assert [(await scene.job(job_id)).retry_of for job_id in chain] == [None, *chain[:-1]]
    for job_id in chain:
        assert await scene.store.jobs.chain_end(job_id) == (chain[-1], JobStatus.PENDING)
    with pytest.raises(StillRunning, match=chain[-1]):
        await retry_job(scene.store, new_id, chain[1])


async def test_a_job_with_an_automatic_successor_is_not_retried_beside_it(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, BOOM, RetryPolicy("chain", backoff=Backoff(0)))

    assert not await scene.store.jobs.retry(claimed.job_id, JobId(new_id()), None)
    with pytest.raises(StillRunning):
        await retry_job(scene.store, new_id, claimed.job_id)


async def test_a_chain_that_ended_well_can_go_on_too(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Done("1"))

    assert await scene.store.jobs.chain_end(claimed.job_id) == (claimed.job_id, JobStatus.COMPLETED)
    assert await retry_job(scene.store, new_id, claimed.job_id)


async def test_a_job_that_never_was_has_no_chain(scene: Scene) -> None:
    assert await scene.store.jobs.chain_end(JobId(new_id())) is None
    with pytest.raises(JobNotFound):
        await retry_job(scene.store, new_id, JobId(new_id()))


async def test_the_database_itself_refuses_a_second_successor(scene: Scene, raw: Raw) -> None:
    job_id = await scene.in_state(JobStatus.FAILED, raw)
    await scene.store.jobs.retry(job_id, JobId(new_id()), None)
    other = await scene.submit()

    with pytest.raises(Refused):
        await raw(f"update cortex.job set retry_of = '{job_id}' where id = '{other}'")


async def test_a_chain_is_found_from_any_of_its_jobs(scene: Scene) -> None:
    jobs = [await scene.submit(max_retries=2)]
    for _ in range(2):
        [claimed] = await scene.claim(await scene.worker())
        await scene.finish(claimed, BOOM, CHAIN)
        jobs.append((await scene.job(jobs[-1])).retried_as or JobId(""))
        await scene.clock.advance(hours=1)
        await scene.store.queue.promote_due(10)

    chains = [[link.id for link in await scene.store.jobs.chain(job)] for job in jobs]
    assert chains == [jobs] * 3
    alone = await scene.submit()
    assert [link.id for link in await scene.store.jobs.chain(alone)] == [alone]
