"""Serial keys and cancellations under way at the same time: each order is forced on real connections."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.core.jobs import Claimed, JobId
from cortex_plane.core.outcomes import Done
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.core.states import JobStatus
from tests.contract.sessions import Four, batch
from tests.contract.support import BOOM, Scene, ended

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


def ids(claimed: list[Claimed]) -> list[JobId]:
    return [one.job_id for one in claimed]


# -- serial keys ---------------------------------------------------------------------------------


async def entries(scene: Scene) -> dict[str, int]:
    return (await scene.store.queue.depths()).get("default", {})


async def test_a_job_that_is_submitted_while_its_key_is_being_claimed_stays_blocked(scene: Scene, four: Four) -> None:
    claimer, submitter, other, _ = four
    first = await scene.submit(serial_key="k")
    worker = await scene.worker()
    await claimer.begin()
    [claimed] = await claimer.claim(worker)
    second = await scene.new_job(serial_key="k", priority=9)
    await submitter.submit(second)
    assert await other.claim(worker) == []
    await claimer.commit()
    assert await other.claim(worker) == []

    assert claimed.job_id == first
    assert await scene.finish(claimed, Done("1"))
    assert ids(await other.claim(worker)) == [second.id]


async def test_a_claim_that_was_rolled_back_leaves_one_of_its_key_ready(scene: Scene, four: Four) -> None:
    claimer, submitter, other, _ = four
    first = await scene.submit(serial_key="k")
    worker = await scene.worker()
    await claimer.begin()
    await claimer.claim(worker)
    await submitter.submit(await scene.new_job(serial_key="k"))
    await claimer.rollback()

    assert await entries(scene) == {"ready": 1, "blocked": 1}
    assert ids(await other.claim(worker)) == [first]


async def test_a_submission_waits_for_a_finish_of_its_key_and_then_one_is_ready(scene: Scene, four: Four) -> None:
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    await scene.submit(serial_key="k")
    urgent = await scene.new_job(serial_key="k", priority=9)
    await finisher.begin()
    await finisher.finish(ended(claimed, Done("1")))
    submission = asyncio.create_task(submitter.submit(urgent))
    await submitter.waits(submission)
    await finisher.commit()
    await submission

    assert await entries(scene) == {"ready": 1, "blocked": 1}
    assert ids(await other.claim(await scene.worker())) == [urgent.id]


async def test_a_finish_waits_for_a_submission_of_its_key_and_then_one_is_ready(scene: Scene, four: Four) -> None:
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    fresh = await scene.new_job(serial_key="k")
    await submitter.begin()
    await submitter.submit(fresh)
    finish = asyncio.create_task(finisher.finish(ended(claimed, Done("1"))))
    await finisher.waits(finish)
    await submitter.commit()

    assert await finish == {claimed.run_id}
    assert ids(await other.claim(await scene.worker())) == [fresh.id]


async def test_a_caller_that_rolls_its_submission_back_does_not_stop_the_key(scene: Scene, four: Four) -> None:
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    waiting = await scene.submit(serial_key="k")
    await submitter.begin()
    await submitter.submit(await scene.new_job(serial_key="k", priority=9))
    finish = asyncio.create_task(finisher.finish(ended(claimed, Done("1"))))
    await finisher.waits(finish)
    await submitter.rollback()
    await finish

    assert ids(await other.claim(await scene.worker())) == [waiting]


# -- cancel meets claim, finish and submit -------------------------------------------------------


async def test_a_cancel_waits_for_a_claim_and_then_cancels_the_run(scene: Scene, four: Four) -> None:
    claimer, canceller, *_ = four
    job_id = await scene.submit()
    await claimer.begin()
    await claimer.claim(await scene.worker())
    cancel = asyncio.create_task(canceller.cancel(job_id))
    await canceller.waits(cancel)
    await claimer.commit()

    assert await cancel
    assert await scene.status(job_id) is JobStatus.CANCELLED
    assert [run.status for run in await scene.store.jobs.runs(job_id)] == ["CANCELLED"]


async def test_a_claim_passes_over_a_job_that_is_being_cancelled(scene: Scene, four: Four) -> None:
    claimer, canceller, *_ = four
    jobs = [await scene.submit() for _ in range(2)]
    await canceller.begin()
    assert await canceller.cancel(jobs[0])

    assert ids(await asyncio.wait_for(claimer.claim(await scene.worker()), 5)) == [jobs[1]]
    await canceller.commit()


async def test_a_cancel_and_a_finish_of_one_serial_key_do_not_deadlock(scene: Scene, four: Four) -> None:
    """Cancel holds the entry of the next job; finish wants to make just that entry ready."""
    canceller, finisher, *_ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    following = await scene.submit(serial_key="k")
    last = await scene.submit(serial_key="k")
    await canceller.begin()
    await canceller.connection.execute("select 1 from cortex.queue_entry where job_id = $1 for update", following)
    finish = asyncio.create_task(finisher.finish(ended(claimed, Done("1"))))
    try:
        await asyncio.wait_for(asyncio.shield(finish), 0.2)
    except TimeoutError:
        pass
    assert await asyncio.wait_for(canceller.cancel(following), 10)
    await canceller.commit()

    assert await asyncio.wait_for(finish, 10) == {claimed.run_id}
    assert ids(await scene.claim(await scene.worker())) == [last]


async def test_a_chained_failure_takes_the_locks_of_its_keys_in_the_common_order(scene: Scene, four: Four) -> None:
    """The successor of a failed job has a key too; its lock must not be taken before the lower ones of the batch."""
    caller, finisher, admin, _ = four
    stripe = "select mod(hashtext('00000000-0000-7000-8000-000000000000' || k), 1024), k from unnest($1::text[]) k order by 1"
    low, *_, high = [row[1] for row in await admin.connection.fetch(stripe, [f"key-{n}" for n in range(9)])]
    jobs = [await scene.new_job(serial_key=key) for key in (low, high)]
    await scene.store.jobs.submit(jobs)
    good, bad = await scene.claim(await scene.worker())

    await caller.begin()
    await caller.submit(await scene.new_job(serial_key=low))
    chained = ended(bad, BOOM, RetryPolicy("chain"))
    finish = asyncio.create_task(finisher.finish(ended(good, Done("1")), chained))
    await finisher.waits(finish)
    await asyncio.wait_for(caller.submit(await scene.new_job(serial_key=high)), 10)
    await caller.commit()

    assert await asyncio.wait_for(finish, 10) == {good.run_id, bad.run_id}
