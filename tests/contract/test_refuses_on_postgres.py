"""What only PostgreSQL has: TRUNCATE, and raw statements that are completed for the writer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import TERMINAL, JobStatus
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from tests.contract.support import Raw, Refused, Scene, raw_client

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.mark.parametrize("table", ["job", "job_history", "job_run", "audit_log"])
@pytest.mark.parametrize("how", ["", " cascade"])
async def test_nothing_permanent_can_be_truncated(scene: Scene, raw: Raw, table: str, how: str) -> None:
    await scene.running()
    with pytest.raises(Refused, match="never changed or deleted"):
        await raw(f"truncate cortex.{table}{how}")

    assert len(await scene.store.jobs.list()) == 1


@pytest.mark.parametrize("after", sorted(TERMINAL))
async def test_a_raw_end_is_given_its_times(scene: Scene, raw: Raw, after: JobStatus) -> None:
    claimed = await scene.running()
    await scene.clock.advance(seconds=9)
    message = ", error_message = 'by hand'" if after is JobStatus.FAILED else ""
    await raw(f"update cortex.job set status = '{after}', run_id = null, worker_id = null{message} where id = '{claimed.job_id}'")

    job = await scene.job(claimed.job_id)
    assert (job.updated_at, job.finished_at) == (scene.now, scene.now)
    [run] = await scene.store.jobs.runs(claimed.job_id)
    assert run.finished_at == scene.now
    last = (await scene.store.jobs.history(claimed.job_id))[-1]
    assert (last.cause, last.actor, last.created_at) == ("sql", "postgres", scene.now)


async def test_times_that_a_raw_statement_sets_itself_are_kept(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    before = scene.now
    await scene.clock.advance(seconds=9)
    await raw(
        "update cortex.job set status = 'COMPLETED', run_id = null, worker_id = null, "
        f"updated_at = cortex.now() - interval '1 second', finished_at = updated_at where id = '{claimed.job_id}'"
    )

    job = await scene.job(claimed.job_id)
    assert job.finished_at == before
    assert before < job.updated_at < scene.now


async def test_one_raw_statement_may_move_many_jobs(scene: Scene, raw: Raw) -> None:
    jobs = [await scene.submit() for _ in range(20)]
    await raw("update cortex.job set status = 'CANCELLED'")

    for job_id in jobs:
        assert [entry.cause for entry in await scene.store.jobs.history(job_id)] == ["submit", "sql"]
    assert await scene.store.queue.depths() == {}


async def test_one_refused_row_undoes_the_whole_raw_statement(scene: Scene, raw: Raw) -> None:
    await scene.in_state(JobStatus.COMPLETED, raw)
    jobs = [await scene.submit() for _ in range(3)]
    with pytest.raises(Refused, match="cannot go from COMPLETED to CANCELLED"):
        await raw("update cortex.job set status = 'CANCELLED'")

    assert {await scene.status(job_id) for job_id in jobs} == {JobStatus.PENDING}


async def test_add_job_submits_like_any_other_client(scene: Scene, raw: Raw) -> None:
    await scene.agent("mailer", queue="mail")
    [(job_id,)] = await raw(
        """select cortex.add_job('mailer', '{"to": "ada"}', priority => 5, tags => '["x"]', created_by => 'billing')"""
    )

    job = await scene.job(JobId(str(job_id)))
    assert (job.queue, job.payload, job.priority, job.tags, job.created_by) == ("mail", {"to": "ada"}, 5, ["x"], "billing")
    assert (job.max_retries, job.status) == (3, JobStatus.PENDING)
    [entry] = await scene.store.jobs.history(job.id)
    assert (entry.cause, entry.actor) == ("submit", "billing")
    assert len(await scene.claim(await scene.worker(), queues=["mail"], job_types=["mailer"])) == 1


async def test_add_job_takes_the_limits_of_its_agent_and_the_time_of_the_plane(scene: Scene, raw: Raw) -> None:
    await scene.agent("mailer", retry=RetryPolicy(max_retries=7))
    [(job_id,)] = await raw("select cortex.add_job('mailer', run_at => cortex.now() + interval '1 hour')")

    job = await scene.job(JobId(str(job_id)))
    assert (job.max_retries, job.created_at) == (7, scene.now)
    assert await scene.store.queue.depths() == {"default": {"later": 1}}


async def test_add_job_refuses_what_it_does_not_know(scene: Scene, raw: Raw) -> None:
    await scene.agent("mailer")
    with pytest.raises(Refused, match='no agent "maler"'):
        await raw("select cortex.add_job('maler')")
    with pytest.raises(Refused, match='no tenant "acme"'):
        await raw("select cortex.add_job('mailer', tenant => 'acme')")

    assert await scene.store.jobs.list() == []


async def test_add_job_belongs_to_its_callers_transaction(scene: Scene, raw: Raw) -> None:
    await scene.agent("mailer")
    await raw("begin")
    await raw("select cortex.add_job('mailer')")
    assert await scene.store.jobs.list() == []
    await raw("rollback")
    assert await scene.store.jobs.list() == []

    await raw("begin")
    await raw("select cortex.add_job('mailer')")
    await raw("commit")
    assert len(await scene.store.jobs.list()) == 1


@pytest.fixture
async def other(store: Store, database_url: str, clock: ManualClock) -> AsyncIterator[Raw]:
    async with raw_client(database_url, clock) as client:
        yield client


async def test_what_the_triggers_refuse_is_refused_in_every_session_mode(scene: Scene, other: Raw) -> None:
    """Serializable and repeatable-read sessions see the same rules."""
    job_id = await scene.submit()
    for level in ("repeatable read", "serializable"):
        await other(f"set default_transaction_isolation = '{level}'")
        with pytest.raises(Refused, match="cannot go from PENDING to RETRY"):
            await other(
                "update cortex.job set status = 'RETRY', next_retry_at = cortex.now(), wait_reason = 'sleep' "
                f"where id = '{job_id}'"
            )
