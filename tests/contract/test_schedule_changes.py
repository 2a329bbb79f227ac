"""Changing a schedule: slots that were due before the change are settled by the rule that was in force."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cortex_plane import Context
from cortex_plane.schedules.model import OverlapRule
from cortex_plane.schedules.slots import due_at_change
from cortex_plane.testing import TestPlane
from tests.contract.killing import Killed, Killer
from tests.contract.schedule_scene import pass_time, reporting, settle, slots, slow, slow_to_fail, statuses

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


async def test_a_slot_that_is_due_runs_though_the_schedule_is_changed_before_a_worker_comes(plane: TestPlane) -> None:
    """A nightly job, and a deployment five minutes past its time that changes the input."""
    ran = reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 10 * * *", input={"kind": "old"})
    await plane.clock.advance(HOUR + 4 * MINUTE)

    await plane.schedules.change("nightly", input={"kind": "new"})
    await settle(plane)

    assert ran == ["new"]
    assert [(slot.origin, slot.status) for slot in await slots(plane, "nightly")] == [("cron", "success")]
    assert (await plane.schedules.get("nightly")).next_run_at == datetime(2026, 1, 6, 10, tzinfo=UTC)


async def test_a_slot_that_is_missed_when_the_schedule_is_changed_is_in_the_ledger(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 10 * * *")
    await plane.clock.advance(2 * HOUR)

    await plane.schedules.change("nightly", cron="30 * * * *")
    await settle(plane)

    assert ran == []
    assert await statuses(plane, "nightly") == [("10:00", "missed")]
    assert (await plane.schedules.get("nightly")).next_run_at == datetime(2026, 1, 5, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize("overlap", ["forbid", "allow"])
async def test_slots_that_are_to_be_caught_up_all_run_after_a_change(plane: TestPlane, overlap: OverlapRule) -> None:
    ran = reporting(plane)
    await plane.schedules.add(
        "often", "agent:report", "* * * * *", missed="all", most_missed=20, overlap=overlap, input={"kind": "x"}
    )
    await plane.clock.advance(11 * MINUTE)

    await plane.schedules.change("often", cron="0 12 * * *")
    await settle(plane, rounds=40)

    assert len(ran) == 11
    assert [slot.status for slot in await slots(plane, "often")] == ["success"] * 11


async def test_of_slots_to_catch_up_only_the_newest_run_and_the_others_are_missed(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("often", "agent:report", "* * * * *", missed="all", most_missed=3)
    await plane.clock.advance(10 * MINUTE)

    await plane.schedules.change("often", cron="0 12 * * *")
    await settle(plane, rounds=20)

    assert len(ran) == 3
    assert [slot.status for slot in await slots(plane, "often")] == ["skipped"] * 7 + ["success"] * 3


async def test_changing_it_twice_runs_a_due_slot_once(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 10 * * *")
    await plane.clock.advance(HOUR + MINUTE)

    await plane.schedules.change("nightly", input={"kind": "a"})
    await plane.schedules.change("nightly", input={"kind": "b"})
    await settle(plane)

    assert ran == ["b"]


async def test_slots_that_fell_due_while_one_ran_are_recorded_by_the_old_rule(plane: TestPlane) -> None:
    told, free = slow(plane)
    await plane.schedules.add("often", "agent:slow", "*/10 * * * *")
    await plane.clock.advance(10 * MINUTE)
    await settle(plane)  # The slot of 09:10 runs.
    await plane.clock.advance(25 * MINUTE)

    await plane.schedules.change("often", cron="7 * * * *")
    free.set()
    await pass_time(plane, 10 * MINUTE, 2 * MINUTE)

    assert told.count("ended") == 1
    assert await statuses(plane, "often") == [("09:10", "success"), ("09:20", "overlap"), ("09:30", "overlap")]
    assert (await plane.schedules.get("often")).next_run_at == datetime(2026, 1, 5, 10, 7, tzinfo=UTC)


async def test_another_time_zone_does_not_cost_the_slot_of_the_day(plane: TestPlane) -> None:
    """10:30 in Berlin has run today; 10:30 in New York is still to come."""
    ran = reporting(plane)
    await plane.schedules.add("daily", "agent:report", "30 10 * * *", timezone="Europe/Berlin")
    await plane.clock.advance(31 * MINUTE)
    await settle(plane)
    assert len(ran) == 1

    changed = await plane.schedules.change("daily", timezone="America/New_York")

    assert changed.next_run_at == datetime(2026, 1, 5, 15, 30, tzinfo=UTC)


async def test_a_second_change_does_not_cost_the_slot_of_the_day_in_the_new_zone(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("daily", "agent:report", "30 10 * * *", timezone="Europe/Berlin")
    await plane.clock.advance(31 * MINUTE)
    await settle(plane)
    await plane.schedules.change("daily", timezone="America/New_York")

    edited = await plane.schedules.change("daily", input={"kind": "new"})
    await plane.schedules.pause("daily")
    resumed = await plane.schedules.resume("daily")

    assert edited.next_run_at == resumed.next_run_at == datetime(2026, 1, 5, 15, 30, tzinfo=UTC)


async def test_what_was_missed_before_the_slot_that_runs_is_caught_up_after_a_change(plane: TestPlane) -> None:
    """Of two workers, one has begun the first of eleven slots when the other declares the schedule anew."""
    told, free = slow(plane)
    await plane.schedules.add("often", "agent:slow", "* * * * *", missed="all", most_missed=20)
    await plane.clock.advance(11 * MINUTE)
    await plane.work()
    await plane.clock.advance(2 * MINUTE)

    await plane.schedules.change("often", cron="0 12 * * *")
    free.set()
    await pass_time(plane, 15 * MINUTE, MINUTE)

    assert told.count("ended") == 13
    assert [status for _, status in await statuses(plane, "often")] == ["success"] * 13


async def test_a_slot_that_jitter_holds_back_runs_though_the_schedule_is_changed_meanwhile(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 10 * * *", jitter_seconds=3600.0, input={"kind": "old"})
    await plane.clock.set(datetime(2026, 1, 5, 10, 0, 1, tzinfo=UTC))

    await plane.schedules.change("nightly", input={"kind": "new"})
    await settle(plane)
    before = list(ran)
    await pass_time(plane, HOUR, 4 * MINUTE)

    assert (before, ran) == ([], ["new"])
    assert await statuses(plane, "nightly") == [("10:00", "success")]


async def test_a_due_slot_that_no_worker_begins_in_time_after_a_change_is_missed(plane: TestPlane) -> None:
    """Under `skip` a slot may begin five minutes late, whether the schedule was changed meanwhile or not."""
    ran = reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 10 * * *")
    await plane.clock.advance(HOUR + 4 * MINUTE)

    await plane.schedules.change("nightly", missed="all", most_missed=3)
    await plane.clock.advance(3 * HOUR)
    await settle(plane)

    assert ran == []
    assert await statuses(plane, "nightly") == [("10:00", "missed")]


async def test_a_due_slot_meets_a_closed_gate_as_the_rule_in_force_said(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 10 * * *")
    await plane.schedules.add("kept", "agent:report", "0 10 * * *", missed="latest", input={"kind": "kept"})
    await plane.gate.close("moving")
    await plane.clock.advance(HOUR + MINUTE)

    for name in ("nightly", "kept"):
        await plane.schedules.change(name, cron="0 12 * * *")
    await settle(plane)
    await plane.gate.open()
    await pass_time(plane, MINUTE, MINUTE)

    assert ran == ["kept"]
    assert await statuses(plane, "nightly") == [("10:00", "gate_closed")]
    assert await statuses(plane, "kept") == [("10:00", "success")]


async def test_a_slot_that_was_due_when_its_schedule_was_paused_is_in_the_ledger(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("often", "agent:report", "* * * * *", missed="all", most_missed=20)
    await plane.clock.advance(3 * MINUTE)

    await plane.schedules.pause("often")
    await settle(plane)
    await plane.clock.advance(HOUR)
    resumed = await plane.schedules.resume("often")
    await settle(plane)

    assert ran == []
    assert await statuses(plane, "often") == [("09:01", "paused"), ("09:02", "paused"), ("09:03", "paused")]
    assert resumed.next_run_at is not None
    assert resumed.next_run_at > plane.clock.moment() - MINUTE


async def test_a_slot_that_waits_for_its_turn_is_not_begun_once_its_schedule_is_paused(plane: TestPlane) -> None:
    """Settled at a change, and paused before a worker came."""
    ran = reporting(plane)
    await plane.schedules.add("often", "agent:report", "* * * * *", missed="all", most_missed=20)
    await plane.clock.advance(3 * MINUTE)
    await plane.schedules.change("often", cron="0 12 * * *")

    await plane.schedules.pause("often")
    await settle(plane, rounds=6)

    assert ran == []
    assert [status for _, status in await statuses(plane, "often")] == ["paused"] * 3


async def test_slots_that_fell_due_while_a_failing_one_ran_are_in_the_ledger_when_that_pauses_the_schedule(
    plane: TestPlane,
) -> None:
    free = slow_to_fail(plane)
    await plane.schedules.add("often", "agent:failing", "* * * * *", pause_after_failures=1)
    await plane.clock.advance(MINUTE)
    await settle(plane)
    await plane.clock.advance(2 * MINUTE)

    free.set()
    await pass_time(plane, 2 * MINUTE, MINUTE)

    assert not (await plane.schedules.get("often")).enabled
    found = await statuses(plane, "often")
    assert found[0] == ("09:01", "run_failed")
    assert {status for _, status in found[1:]} == {"overlap"}
    assert len(found) >= 3


async def test_due_slots_of_a_schedule_whose_grant_is_revoked_are_in_the_ledger(plane: TestPlane) -> None:
    ran = reporting(plane)
    schedule = await plane.schedules.add("nightly", "agent:report", "0 10 * * *")
    await plane.clock.advance(HOUR + MINUTE)

    await plane.grants.revoke(schedule.grant_id)
    await settle(plane)

    assert ran == []
    assert await statuses(plane, "nightly") == [("10:00", "paused")]


# -- deployments ---------------------------------------------------------------------------------


def deployed(plane: TestPlane, ran: list[str], cron: str, name: str = "nightly", **terms: Any) -> None:
    """The code of another release: what it declares replaces what was declared."""
    plane.schedules._declared.clear()
    if "report" not in plane.agents:

        @plane.agent("report")
        async def report(ctx: Context, kind: str = "") -> None:
            ran.append(kind)

    plane.schedules.declare(cron, name=name, **terms)(plane.agents["report"].handler)


@pytest.mark.parametrize(
    "terms",
    [{"input": {"kind": "new"}}, {"cron": "0 12 * * *"}, {"timezone": "Asia/Tokyo"}, {"name": "renamed"}],
    ids=["input", "cron", "zone", "name"],
)
async def test_a_deployment_past_the_time_of_a_slot_loses_no_slot(plane: TestPlane, terms: dict[str, Any]) -> None:
    ran: list[str] = []
    deployed(plane, ran, "0 10 * * *", input={"kind": "old"})
    await plane.schedules.sync_declared()
    await plane.clock.advance(HOUR + 4 * MINUTE)

    deployed(plane, ran, **{"cron": "0 10 * * *", "input": {"kind": "old"}, **terms})
    await settle(plane)

    assert ran == [terms.get("input", {"kind": "old"})["kind"]]
    assert await statuses(plane, "nightly") == [("10:00", "success")]


async def test_a_deployment_after_ten_minutes_away_catches_up_all_that_the_rule_wants(plane: TestPlane) -> None:
    ran: list[str] = []
    deployed(plane, ran, "* * * * *", missed="all", most_missed=20)
    await plane.schedules.sync_declared()
    await plane.clock.advance(11 * MINUTE)

    deployed(plane, ran, "* * * * *", missed="all", most_missed=20, input={"kind": "new"})
    await settle(plane, rounds=40)

    assert ran[:11] == ["new"] * 11


# -- faults --------------------------------------------------------------------------------------


async def test_a_change_is_whole_or_not_at_all_wherever_whoever_makes_it_dies(plane: TestPlane) -> None:
    ran = reporting(plane)
    store: Any = plane.store
    killer = Killer(store.database)
    statement, killer.struck = 0, True
    while killer.struck:
        statement += 1
        name, kind = f"s{statement}", {"kind": str(statement)}
        await plane.schedules.add(name, "agent:report", "* * * * *", missed="all", most_missed=20, overlap="allow", input=kind)
        await plane.clock.advance(3 * MINUTE)
        killer.strike_at(statement)
        killer.watching = True
        with suppress(Killed):
            await plane.schedules.change(name, cron="0 0 1 1 *")
        killer.watching = False
        await plane.schedules.change(name, cron="0 0 1 1 *")
    await settle(plane, rounds=4)

    assert statement > 10, "every statement was watched"
    for number in range(1, statement + 1):
        assert ran.count(str(number)) == 3
        assert [status for _, status in await statuses(plane, f"s{number}")] == ["success"] * 3


async def test_settling_a_thousand_slots_is_reckoned_within_a_second(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("often", "agent:report", "* * * * *", missed="all", most_missed=1000)
    await plane.clock.advance(1000 * MINUTE)
    schedule = await plane.schedules.get("often")

    began = time.process_time()
    due = due_at_change(schedule, None, plane.clock.moment())

    assert len(due.run) == 1000
    assert time.process_time() - began < 1.0
