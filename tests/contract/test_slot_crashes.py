"""Whoever looks after a slot may die between any two statements: the slot still runs once and is charged once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.schedules.model import Schedule
from cortex_plane.testing import TestPlane
from tests.contract.killing import Killed, Killer
from tests.contract.schedule_scene import look_after, reporting, slots
from tests.contract.support import Scene, ended

pytestmark = pytest.mark.anyio

MOST_STATEMENTS = 100


@pytest.mark.parametrize("overlap", ["forbid", "allow"])
async def test_a_slot_runs_once_and_is_charged_once_wherever_its_runner_dies(plane: TestPlane, overlap: str) -> None:
    reporting(plane)
    store: Any = plane.store
    scene, killer = Scene(store, plane.clock), Killer(store.database)
    worker = await scene.worker()

    for statement in range(1, MOST_STATEMENTS):
        schedule = await plane.schedules.add(f"s{statement}", "agent:report", "0 * * * *", overlap=overlap)  # type: ignore[arg-type]
        assert schedule.next_run_at is not None
        at = schedule.next_run_at
        await plane.clock.set(at)

        killer.strike_at(statement)
        assert await _again_until_answered(plane, killer, schedule, at) == "sleeping"
        [run] = await scene.claim(worker, 10, job_types=("report",))
        await store.queue.finish([ended(run, Done("null"))._replace(cost_cents=5)], "test")
        assert await _again_until_answered(plane, killer, schedule, at) == "success"

        await _check(plane, schedule, run.job_id)
        if not killer.struck:
            assert statement > 20, "both calls were watched"
            return
    pytest.fail("it never ends")


async def _again_until_answered(plane: TestPlane, killer: Killer, schedule: Schedule, at: datetime) -> str:
    killer.watching = True
    try:
        while True:
            try:
                return await look_after(plane, schedule, at)
            except Killed:
                continue
    finally:
        killer.watching = False


async def _check(plane: TestPlane, schedule: Schedule, run_id: JobId) -> None:
    [slot] = await slots(plane, schedule.name)
    assert (slot.status, slot.run_id) == ("success", run_id)
    assert [(one.unit, one.quantity) for one in await plane.billing.receipts(run_id)] == [("cents", 5)]
    assert (await plane.grants.get(schedule.grant_id)).uses == 1
    after = await plane.schedules.get(schedule.id)
    assert after.next_run_at is not None
    assert after.next_run_at > slot.scheduled_for
    assert (await plane.jobs.get(after.slot_job_id or "")).job_key == f"{schedule.id}:{after.next_run_at.isoformat()}"
