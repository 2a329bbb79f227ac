"""A queue held for one job: exclusive, expiring, and over with its run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_plane.errors import Conflict, Denied, NotFound, QueueBusy
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.queues.model import ReservationId, ReservationStatus
from cortex_plane.queues.reservations import release
from tests.contract.support import BOOM, FATAL, Raw, Refused, Scene

pytestmark = pytest.mark.anyio


async def reserve(scene: Scene, by: str = "ada", ttl_seconds: float = 60, **fields: Any) -> tuple[ReservationId, JobId]:
    reservation_id, job = ReservationId(new_id()), await scene.new_job(**fields)
    await scene.store.reservations.reserve(reservation_id, job, by, ttl_seconds)
    return reservation_id, job.id


async def status(scene: Scene, reservation_id: ReservationId) -> ReservationStatus:
    found = await scene.store.reservations.get(reservation_id)
    assert found is not None
    return found.status


def ids(claimed: list[Claimed]) -> list[str]:
    return [one.job_id for one in claimed]


async def test_the_reserved_job_runs_ahead_alone_and_the_queue_keeps_its_order(scene: Scene) -> None:
    waiting = [await scene.submit(priority=n) for n in (9, 0, 5)]
    reservation_id, direct = await reserve(scene)
    worker = await scene.worker()

    first = await scene.claim(worker)
    assert ids(first) == [direct]
    assert await scene.claim(worker) == []
    await scene.finish(first[0], Done("1"))
    assert await status(scene, reservation_id) is ReservationStatus.RELEASED
    assert ids(await scene.claim(worker)) == [waiting[0], waiting[2], waiting[1]]


async def test_the_reserved_job_waits_for_every_run_of_its_queue(scene: Scene) -> None:
    running = [await scene.running(), await scene.running()]
    elsewhere = await scene.submit(queue="other")
    _, direct = await reserve(scene)
    worker = await scene.worker()

    assert ids(await scene.claim(worker, 10, ("default", "other"))) == [elsewhere]
    await scene.finish(running[0], Done("1"))
    assert await scene.claim(worker) == []
    await scene.finish(running[1], Done("1"))
    assert ids(await scene.claim(worker)) == [direct]


@pytest.mark.parametrize("outcome", [Done("1"), BOOM, FATAL], ids=["success", "retry", "failure"])
async def test_a_reservation_is_released_when_its_run_closes(scene: Scene, outcome: Done) -> None:
    reservation_id, _ = await reserve(scene)
    [claimed] = await scene.claim(await scene.worker())
    await scene.finish(claimed, outcome)

    assert await status(scene, reservation_id) is ReservationStatus.RELEASED
    actions = [record.entry.action for record in await scene.store.audit.list(reservation_id)]
    assert actions == ["QUEUE_RESERVED", "RESERVATION_RELEASED"]


async def test_a_reservation_is_released_when_its_worker_dies(scene: Scene) -> None:
    reservation_id, _ = await reserve(scene)
    worker = await scene.worker()
    await scene.claim(worker)
    await scene.store.workers.give_up(worker)
    await scene.rescue()

    assert await status(scene, reservation_id) is ReservationStatus.RELEASED


async def test_a_cancelled_job_gives_its_reservation_back(scene: Scene) -> None:
    reservation_id, job = await reserve(scene)
    await scene.store.jobs.cancel(job, "ada", None)

    assert await status(scene, reservation_id) is ReservationStatus.RELEASED


async def test_of_many_at_once_one_gets_the_queue_and_nobody_else_leaves_a_job(scene: Scene, raw: Raw) -> None:
    await scene.agent()
    answers = await asyncio.gather(*(reserve(scene, f"caller {n}") for n in range(20)), return_exceptions=True)

    assert sum(isinstance(answer, tuple) for answer in answers) == 1
    assert all(isinstance(answer, tuple | QueueBusy) for answer in answers)
    assert await raw("select count(*) from cortex.job") == [(1,)]


async def test_the_database_itself_keeps_a_second_one_out(scene: Scene, raw: Raw) -> None:
    reservation_id, _ = await reserve(scene)
    columns = "queue, reserved_by, reserved_at, expires_at"
    with pytest.raises(Refused):
        await raw(
            f"insert into cortex.direct_reservation (id, job_id, {columns}) "
            f"select '{new_id()}', '{new_id()}', {columns} from cortex.direct_reservation where id = '{reservation_id}'"
        )


async def test_a_holder_that_falls_silent_loses_the_queue_and_its_job_never_runs(scene: Scene) -> None:
    reservation_id, job = await reserve(scene, ttl_seconds=60)
    waiting = await scene.submit()
    await scene.clock.advance(seconds=61)

    assert await scene.store.reservations.expire() == 1
    assert await status(scene, reservation_id) is ReservationStatus.EXPIRED
    assert await scene.status(job) is JobStatus.CANCELLED
    assert ids(await scene.claim(await scene.worker())) == [waiting]
    assert await scene.store.reservations.expire() == 0


async def test_a_holder_that_says_so_keeps_it(scene: Scene) -> None:
    reservation_id, _ = await reserve(scene, ttl_seconds=60)
    for _ in range(3):
        await scene.clock.advance(seconds=40)
        assert await scene.store.reservations.renew(reservation_id, "ada", 60)

    assert not await scene.store.reservations.renew(reservation_id, "bob", 60)
    assert await scene.store.reservations.expire() == 0


async def test_it_does_not_expire_while_its_job_runs(scene: Scene) -> None:
    reservation_id, job = await reserve(scene, ttl_seconds=60)
    [claimed] = await scene.claim(await scene.worker())
    await scene.clock.advance(hours=2)

    assert await scene.store.reservations.expire() == 0
    assert await scene.finish(claimed, Done("1"))
    assert (await scene.status(job), await status(scene, reservation_id)) == (JobStatus.COMPLETED, ReservationStatus.RELEASED)


async def test_only_the_holder_or_force_releases_it(scene: Scene) -> None:
    reservation_id, job = await reserve(scene)
    with pytest.raises(Denied, match="held by ada, not by bob"):
        await release(scene.store, reservation_id, by="bob")
    assert await status(scene, reservation_id) is ReservationStatus.ACTIVE

    await release(scene.store, reservation_id, by="bob", force=True)
    assert await scene.status(job) is JobStatus.PENDING
    with pytest.raises(Conflict, match="RELEASED already"):
        await release(scene.store, reservation_id, by="ada")
    with pytest.raises(NotFound):
        await release(scene.store, ReservationId(new_id()), by="ada")


async def test_a_reserved_job_takes_a_place_of_a_full_claim(scene: Scene) -> None:
    """There are only so many run ids: one job more than those once ended every worker that read another busy queue."""
    others = [await scene.submit(queue="other") for _ in range(3)]
    _, direct = await reserve(scene)
    worker = await scene.worker()

    assert ids(await scene.claim(worker, 2, ("default", "other"))) == [direct, others[0]]
    assert ids(await scene.claim(worker, 10, ("default", "other"))) == others[1:]
