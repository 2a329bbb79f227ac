"""Records other than jobs go too when their time is over; what something live still needs does not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cortex_plane import Submission
from cortex_plane.agents.directory import Directory
from cortex_plane.errors import InvalidInput
from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.ids import new_id
from cortex_plane.jobs.outcomes import Done
from cortex_plane.retention.model import RecordKind, RetentionRule
from cortex_plane.retention.service import add_rule, prune_records
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import pass_time, reporting, slots
from tests.contract.support import Scene
from tests.contract.test_reservations import reserve

pytestmark = pytest.mark.anyio

YEARS = timedelta(days=3650)
"""Ids are made by the machine's clock, which the tests do not turn: so long that it makes no difference."""


async def rule(scene: Scene, record: RecordKind, keep: timedelta = timedelta(days=7)) -> RetentionRule:
    return await add_rule(scene.store, Directory(scene.store), new_id, keep, record=record)


async def test_workers_that_have_ended_go_after_a_month_without_any_rule(scene: Scene) -> None:
    gone, lives = await scene.worker(), await scene.worker()
    await scene.store.workers.leave(gone)

    early = await prune_records(scene.store)
    await scene.clock.advance(YEARS)
    late = await prune_records(scene.store)

    assert (early, late) == (0, 1)
    assert [worker.id for worker in await scene.store.workers.list()] == [lives]


async def test_a_rule_says_how_long_workers_are_kept(scene: Scene) -> None:
    await scene.store.workers.leave(await scene.worker())
    await rule(scene, RecordKind.WORKER, 2 * YEARS)

    await scene.clock.advance(YEARS)

    assert await prune_records(scene.store) == 0


async def test_reservations_that_are_over_go_and_one_that_holds_stays(scene: Scene) -> None:
    await reserve(scene, queue="over")
    [claimed] = await scene.claim(await scene.worker(), 1, queues=("over",))

    await scene.finish(claimed, Done(None))
    holds, _ = await reserve(scene, queue="held", ttl_seconds=2 * YEARS.total_seconds())

    await scene.clock.advance(YEARS)
    await prune_records(scene.store)

    assert [one.id for one in await scene.store.reservations.list()] == [holds]


async def test_slots_go_and_the_newest_of_each_schedule_stays(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 0 * * *")
    await pass_time(plane, timedelta(days=4), timedelta(hours=6))
    before = await slots(plane, "nightly")
    await plane.schedules.pause("nightly")

    kept_for_ever = await plane.retention.run()
    await plane.retention.add(timedelta(days=7), record="schedule-run")
    await plane.clock.advance(YEARS)
    await plane.retention.run()
    after = await slots(plane, "nightly")

    assert kept_for_ever == 0
    assert len(before) >= 3
    assert [slot.scheduled_for for slot in after] == [max(slot.scheduled_for for slot in before)]


async def test_requests_go_with_their_receipts_and_open_ones_stay(plane: TestPlane) -> None:
    reporting(plane)
    grant = await plane.grants.add(["agent:run:report"])
    store = plane.store
    directory = plane.directory
    ended = await start_run(store, directory, plane.clock, new_id, RunWish("agent:report", "ended", grant.id, {}))
    await plane.work()
    open_one = await start_run(store, directory, plane.clock, new_id, RunWish("agent:report", "open", grant.id, {}))
    await plane.retention.add(timedelta(days=7), record="execution_request")

    await plane.clock.advance(YEARS)
    await prune_records(store)

    assert await store.requests.by_run(ended.run_id) is None
    assert await store.requests.by_run(open_one.run_id) is not None


async def test_a_group_goes_with_its_last_member(plane: TestPlane) -> None:
    reporting(plane)
    finished = await plane.groups.submit([Submission("report") for _ in range(2)])
    await plane.work()
    await plane.retention.add(timedelta(days=7))

    await plane.clock.advance(days=8)
    deleted = await plane.retention.run()

    assert deleted >= 2
    assert await plane.store.groups.get(finished.id) is None


@pytest.mark.parametrize("what", [{"agent": "echo"}, {"status": "FAILED"}, {"tenant": "default"}])
async def test_only_rules_about_jobs_say_which(scene: Scene, what: Any) -> None:
    await scene.agent()

    with pytest.raises(InvalidInput, match="Only rules about jobs"):
        await add_rule(scene.store, Directory(scene.store), new_id, 60, record="worker", **what)


async def test_an_unknown_kind_of_record_is_refused_by_name(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="Did you mean") as refused:
        await add_rule(scene.store, Directory(scene.store), new_id, 60, record="workers")

    assert refused.value.field == "record"


async def test_a_batch_is_no_larger_than_asked_and_the_oldest_go_first(scene: Scene) -> None:
    workers = [await scene.worker() for _ in range(5)]
    for worker in workers:
        await scene.store.workers.leave(worker)
    await scene.clock.advance(YEARS)

    deleted = await scene.store.retention.delete_records(RecordKind.WORKER, scene.now, 2)

    assert deleted == 2
    assert sorted(worker.id for worker in await scene.store.workers.list()) == sorted(workers)[2:]
