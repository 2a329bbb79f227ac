"""An approved job is RUNNING at once, with a run that nobody owns; a claim takes that run over, in order, under all rules."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cortex_plane.approvals.model import NewApproval
from cortex_plane.audit.model import AuditEntry
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done, HandedBack
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.people.model import User
from cortex_plane.queues.model import Scope, paused
from cortex_plane.queues.why import explain_job
from cortex_plane.worker.model import actor_of
from tests.contract.approval_scene import Desk
from tests.contract.support import Raw, Scene, into, run_ids

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ann(desk: Desk) -> User:
    return await desk.user("ann")


async def approved(desk: Desk, ann: User, **job: object) -> NewApproval:
    request = await desk.asked(ann, job=job)
    await desk.decide(request, ann)
    return request


def ids(claimed: list[Claimed]) -> list[JobId]:
    return [one.job_id for one in claimed]


async def entries(raw: Raw) -> list[tuple[str, str]]:
    return [(str(job_id), str(state)) for job_id, state in await raw("select job_id, state from cortex.queue_entry")]


async def test_a_claim_takes_the_run_over_that_the_approval_opened(scene: Scene, desk: Desk, raw: Raw, ann: User) -> None:
    request = await approved(desk, ann)
    before = await scene.job(request.job_id)
    assert await entries(raw) == [(request.job_id, "ready")]
    worker = await scene.worker()

    [claimed] = await scene.claim(worker)

    after, runs = await scene.job(request.job_id), await scene.store.jobs.runs(request.job_id)
    assert claimed.run_id == before.run_id == after.run_id
    assert (claimed.attempt, after.attempt, after.worker_id, after.worker_job_id) == (2, 2, worker, None)
    assert [(run.status, run.worker_id) for run in runs][1:] == [(RunStatus.RUNNING, worker)]
    assert await entries(raw) == []
    assert [entry.cause for entry in await scene.store.jobs.history(request.job_id)] == ["submit", "claim", "ask", "approve"]


async def test_a_run_that_was_taken_over_ends_as_any_other(scene: Scene, desk: Desk, ann: User) -> None:
    request = await approved(desk, ann)
    [claimed] = await scene.claim(await scene.worker())

    assert await scene.finish(claimed, Done("1"))
    assert await scene.status(request.job_id) is JobStatus.COMPLETED
    assert [run.status for run in await scene.store.jobs.runs(request.job_id)] == [RunStatus.WAITING, RunStatus.COMPLETED]


async def test_of_many_workers_one_takes_it_over(scene: Scene, desk: Desk, ann: User) -> None:
    request = await approved(desk, ann)
    workers = [await scene.worker() for _ in range(8)]

    claims = await asyncio.gather(*(scene.claim(worker) for worker in workers))

    assert [ids(claimed) for claimed in claims if claimed] == [[request.job_id]]


async def test_it_has_its_place_in_the_order(scene: Scene, desk: Desk, ann: User) -> None:
    early = await desk.asked(ann)
    plain = await scene.submit()
    late = await desk.asked(ann, job={"priority": 1})
    urgent, last = await scene.submit(priority=5), await scene.submit()
    await scene.finish((await scene.claim(await scene.worker(), 1))[0], HandedBack())
    await desk.decide(late, ann)
    await desk.decide(early, ann)

    claimed = await scene.claim(await scene.worker())

    assert ids(claimed) == [urgent, late.job_id, early.job_id, plain, last]


async def test_an_answer_that_was_lost_is_found_by_the_run_ids_of_the_claim(scene: Scene, desk: Desk, ann: User) -> None:
    request = await approved(desk, ann)
    await scene.submit()
    worker, given = await scene.worker(), run_ids(5)
    claimed = await scene.store.queue.claim(worker, ("default",), ("echo",), given)

    found = await scene.store.queue.open_runs(worker, given)

    assert sorted(ids(found)) == sorted(ids(claimed))
    assert {one.run_id for one in found} == {one.run_id for one in claimed}
    assert await scene.store.queue.open_runs(worker, run_ids(3)) == []
    assert request.job_id in ids(found)


async def test_a_worker_that_is_not_live_takes_nothing_over(scene: Scene, desk: Desk, raw: Raw, ann: User) -> None:
    request = await approved(desk, ann)
    gone = await scene.worker()
    await scene.store.workers.give_up(gone)

    assert await scene.claim(gone) == []
    assert await entries(raw) == [(request.job_id, "ready")]


# -- under keys, limits, pauses and reservations -------------------------------------------------


async def test_a_serial_key_is_free_while_its_job_waits_and_obeyed_when_it_goes_on(
    scene: Scene, desk: Desk, raw: Raw, ann: User
) -> None:
    request = await desk.asked(ann, job={"serial_key": "shop"})
    other = await scene.submit(serial_key="shop")
    worker = await scene.worker()
    [running] = await scene.claim(worker)
    assert running.job_id == other
    await desk.decide(request, ann)

    assert await entries(raw) == [(request.job_id, "blocked")]
    assert await scene.claim(worker) == []
    await scene.finish(running, Done())
    [taken] = await scene.claim(worker)
    assert taken.job_id == request.job_id
    third = await scene.submit(serial_key="shop")
    assert await scene.claim(worker) == []
    await scene.finish(taken, Done())
    assert ids(await scene.claim(worker)) == [third]


async def test_an_unowned_run_holds_no_key(scene: Scene, desk: Desk, ann: User) -> None:
    """It waits in line with the others of its key: one that comes before it runs first."""
    request = await approved(desk, ann, serial_key="shop")
    before = await scene.submit(serial_key="shop", priority=9)
    worker = await scene.worker()

    [first] = await scene.claim(worker)

    assert first.job_id == before
    await scene.finish(first, Done())
    assert ids(await scene.claim(worker)) == [request.job_id]


async def test_a_limit_counts_owned_runs_only_and_holds_for_a_takeover(scene: Scene, desk: Desk, ann: User) -> None:
    first, second = await desk.asked(ann), await desk.asked(ann)
    await desk.decide(second, ann)
    await desk.decide(first, ann)
    await scene.store.controls.change(
        Scope.QUEUE, "default", lambda control: replace(control, max_running=1), AuditEntry("LIMIT_SET", "queue", "default")
    )
    worker = await scene.worker()

    [one] = await scene.claim(worker)

    assert one.job_id == first.job_id
    assert await scene.claim(worker) == []
    await scene.finish(one, Done())
    assert ids(await scene.claim(worker)) == [second.job_id]


async def test_a_pause_keeps_an_approved_job_from_being_taken_over(scene: Scene, desk: Desk, ann: User) -> None:
    request = await approved(desk, ann)
    await scene.store.controls.change(
        Scope.QUEUE, "default", lambda control: paused(control, "ops", None), AuditEntry("PAUSED", "queue", "default")
    )

    assert await scene.claim(await scene.worker()) == []
    reasons = [reason.code for reason in await explain_job(scene.store, await scene.job(request.job_id))]
    assert "queue_paused" in reasons


# -- what nobody owns ----------------------------------------------------------------------------


async def test_rescue_leaves_unowned_runs_alone(scene: Scene, desk: Desk, raw: Raw, ann: User) -> None:
    request = await approved(desk, ann)
    lost = await scene.worker(lease_seconds=1)
    await scene.clock.advance(hours=1)

    assert [worker for worker, _ in await scene.store.workers.declare_lost(await scene.worker(lease_seconds=9_999))]
    assert await scene.rescue() == 0
    assert lost
    assert await scene.status(request.job_id) is JobStatus.RUNNING
    assert await entries(raw) == [(request.job_id, "ready")]


async def test_a_crash_after_the_takeover_is_rescued_as_any_other(scene: Scene, desk: Desk, ann: User) -> None:
    request = await approved(desk, ann)
    worker = await scene.worker()
    [claimed] = await scene.claim(worker)
    await scene.store.workers.give_up(worker)

    assert await scene.rescue() == 1
    assert await scene.status(request.job_id) is JobStatus.RETRY
    [again] = await scene.claim(await scene.worker())
    assert again.run_id != claimed.run_id
    assert again.attempt == 3


async def test_cancelling_an_approved_job_takes_it_out_of_the_queue(scene: Scene, desk: Desk, raw: Raw, ann: User) -> None:
    request = await approved(desk, ann)

    assert await scene.store.jobs.cancel(request.job_id, None, None)

    assert await entries(raw) == []
    assert [run.status for run in await scene.store.jobs.runs(request.job_id)] == [RunStatus.WAITING, RunStatus.CANCELLED]
    assert await scene.claim(await scene.worker()) == []
    assert (await desk.stored(request)).outcome == "approved"


async def test_cancelling_an_approved_job_frees_its_key(scene: Scene, desk: Desk, ann: User) -> None:
    request = await approved(desk, ann, serial_key="shop")
    other = await scene.submit(serial_key="shop")

    await scene.store.jobs.cancel(request.job_id, None, None)

    assert ids(await scene.claim(await scene.worker())) == [other]


@pytest.mark.parametrize("status", [JobStatus.RETRY, JobStatus.COMPLETED, JobStatus.WAITING_FOR_APPROVAL])
async def test_raw_sql_cannot_leave_the_entry_of_a_job_that_has_moved_on(
    scene: Scene, desk: Desk, raw: Raw, ann: User, status: JobStatus
) -> None:
    request = await approved(desk, ann)

    await raw(f"update cortex.job set {into(status, raw)} where id = '{request.job_id}'")

    expected = [(request.job_id, "later")] if status is JobStatus.RETRY else []
    assert await entries(raw) == expected


async def test_a_worker_is_named_as_the_actor_of_what_it_took_over(scene: Scene, desk: Desk, raw: Raw, ann: User) -> None:
    request = await approved(desk, ann)
    worker = await scene.worker()
    await scene.claim(worker)

    assert await raw(f"select actor, cause from cortex.job where id = '{request.job_id}'") == [(actor_of(worker), "claim")]
