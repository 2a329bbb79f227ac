"""Serial keys and cancellations under way at the same time: each order is forced on real connections."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done, Interrupted
from cortex_plane.jobs.states import JobStatus
from tests.contract.sessions import Four, batch
from tests.contract.support import Scene, ended

pytestmark = pytest.mark.anyio

SOON_SECONDS = 5.0


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


async def test_a_submission_does_not_wait_for_a_finish_of_its_key_and_then_one_is_ready(scene: Scene, four: Four) -> None:
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    await scene.submit(serial_key="k")
    urgent = await scene.new_job(serial_key="k", priority=9)
    await finisher.begin()
    await finisher.finish(ended(claimed, Done("1")))
    await asyncio.wait_for(submitter.submit(urgent), SOON_SECONDS)
    await finisher.commit()

    assert ids(await other.claim(await scene.worker())) == [urgent.id]
    assert await entries(scene) == {"blocked": 1}


async def test_a_finish_does_not_wait_for_a_submission_of_its_key_and_then_one_is_ready(scene: Scene, four: Four) -> None:
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    fresh = await scene.new_job(serial_key="k")
    await submitter.begin()
    await submitter.submit(fresh)
    assert await asyncio.wait_for(finisher.finish(ended(claimed, Done("1"))), SOON_SECONDS) == {claimed.run_id}
    await submitter.commit()

    assert ids(await other.claim(await scene.worker())) == [fresh.id]


async def test_a_mark_that_is_read_while_the_run_of_its_key_ends_is_kept(scene: Scene, four: Four) -> None:
    """The submission is committed and looked at before the finish is: whoever looks then must look again."""
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    await finisher.begin()
    await finisher.finish(ended(claimed, Done("1")))
    fresh = await scene.new_job(serial_key="k")
    await submitter.submit(fresh)
    assert await other.claim(await scene.worker()) == []
    await finisher.commit()

    assert ids(await other.claim(await scene.worker())) == [fresh.id]


async def test_a_caller_that_rolls_its_submission_back_does_not_stop_the_key(scene: Scene, four: Four) -> None:
    finisher, submitter, other, _ = four
    _, [claimed] = await batch(scene, 1, serial_key="k")
    waiting = await scene.submit(serial_key="k")
    await submitter.begin()
    await submitter.submit(await scene.new_job(serial_key="k", priority=9))
    await asyncio.wait_for(finisher.finish(ended(claimed, Done("1"))), SOON_SECONDS)
    await submitter.rollback()

    assert ids(await other.claim(await scene.worker())) == [waiting]


async def test_an_open_transaction_that_submitted_with_keys_delays_nobody(scene: Scene, four: Four) -> None:
    """A thousand keys: with locks on stripes of keys, every other key would share one with them."""
    caller, finisher, other, _ = four
    worker, claimed = await batch(scene, 30, serial_key=None)
    keyed = [await scene.new_job(serial_key=f"mine-{n}") for n in range(10)]
    await scene.store.jobs.submit(keyed)
    claimed += await other.claim(worker, 10)
    await caller.begin()
    await caller.submit(*[await scene.new_job(serial_key=f"theirs-{n}") for n in range(1000)])
    async with asyncio.timeout(SOON_SECONDS):
        assert len(await finisher.finish(*(ended(each, Done("1")) for each in claimed))) == 40
        more = [await scene.new_job(serial_key=f"mine-{n}") for n in range(10)]
        await scene.store.jobs.submit(more)
        assert sorted(ids(await other.claim(worker, 20))) == sorted(job.id for job in more)
        assert await scene.store.jobs.cancel(more[0].id, None, None) == "cancelled"
    await caller.commit()

    assert len(await other.claim(worker, 2000)) == 1000


@pytest.mark.parametrize("how", ["cancel", "reorder", "retry"])
async def test_an_open_transaction_that_changes_a_keyed_job_delays_that_key_alone(scene: Scene, four: Four, how: str) -> None:
    person, finisher, other, _ = four
    worker, claimed = await batch(scene, 2, serial_key=None)
    first = await scene.new_job(serial_key="a")
    await scene.store.jobs.submit([first, await scene.new_job(serial_key="b")])
    keyed = {one.job_id: one for one in await other.claim(worker, 10)}
    second = await scene.submit(serial_key="a")
    await person.begin()
    if how == "cancel":
        await person.cancel(second)
    elif how == "reorder":
        await person.connection.execute("update cortex.job set priority = 9 where id = $1", second)
    else:
        await person.finish(ended(keyed[first.id], Interrupted()))
    async with asyncio.timeout(SOON_SECONDS):
        for one in [*claimed, *(one for job_id, one in keyed.items() if job_id != first.id)]:
            assert await finisher.finish(ended(one, Done("1")))
        fresh = [await scene.submit(serial_key="a"), await scene.submit(serial_key="c")]
        assert ids(await other.claim(worker, 10)) == fresh[1:]
    await person.rollback()
    assert await finisher.finish(ended(keyed[first.id], Done("1")))

    assert ids(await other.claim(worker, 10)) == [second]


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
