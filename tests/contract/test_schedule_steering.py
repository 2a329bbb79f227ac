"""Schedules: slots that are asked for, what stops a schedule, what moves it, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cortex_plane.durable.context import Context
from cortex_plane.errors import Conflict, InvalidInput
from cortex_plane.grants.model import GrantRefused
from cortex_plane.ids import new_id
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.schedules.model import ScheduleExists, ScheduleNotFound
from cortex_plane.testing import TestPlane
from cortex_plane.worker.reconciler import mend_schedules
from tests.contract.schedule_scene import (
    pass_time,
    reporting,
    settle,
    slots,
    slow,
    statuses,
    waiting_slot_jobs,
)

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
NO_RETRIES = RetryPolicy(max_retries=0)


# -- asked for -----------------------------------------------------------------------------------


async def test_a_triggered_slot_runs_once_and_leaves_the_chain_alone(plane: TestPlane) -> None:
    ran = reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *", input={"kind": "x"})

    await plane.schedules.trigger("hourly")
    await settle(plane)

    assert ran == ["x"]
    assert [slot.origin for slot in await slots(plane, "hourly")] == ["manual"]
    assert (await plane.schedules.get("hourly")).next_run_at == schedule.next_run_at


async def test_a_triggered_slot_waits_for_the_one_that_runs(plane: TestPlane) -> None:
    told, free = slow(plane)
    await plane.schedules.add("hourly", "agent:slow", "0 * * * *")
    await plane.clock.advance(HOUR)
    await settle(plane)

    await plane.schedules.trigger("hourly")
    await settle(plane)
    during = [slot.status for slot in await slots(plane, "hourly")]
    free.set()
    await pass_time(plane, timedelta(minutes=10), timedelta(minutes=2))

    assert during == ["running", "pending"]
    assert [slot.status for slot in await slots(plane, "hourly")] == ["success", "success"]
    assert told.count("ended") == 2


async def test_backfill_runs_what_did_not_run_and_nothing_twice(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *", overlap="allow")
    await plane.clock.advance(HOUR)
    await settle(plane)  # 10:00 runs
    await plane.clock.advance(hours=2, minutes=30)
    await settle(plane)  # 11:00 and 12:00 are missed
    start, end = datetime(2026, 1, 5, 8, tzinfo=UTC), datetime(2026, 1, 6, tzinfo=UTC)

    wanted = await plane.schedules.backfill("hourly", start, end)
    again = await plane.schedules.backfill("hourly", start, end)
    await settle(plane)

    assert [f"{slot.scheduled_for:%H:%M}" for slot in wanted] == ["08:00", "09:00", "11:00", "12:00"]
    assert again == []
    assert len(ran) == 5
    assert {slot.status for slot in await slots(plane, "hourly")} == {"success"}


async def test_backfill_of_nothing_says_so(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "* * * * *")
    now = plane.clock.moment()

    with pytest.raises(InvalidInput, match="lie in the past"):
        await plane.schedules.backfill("hourly", now, now + HOUR)
    with pytest.raises(InvalidInput, match="more than 1,000 slots"):
        await plane.schedules.backfill("hourly", now - timedelta(days=2), now)


# -- what stops it -------------------------------------------------------------------------------


async def test_a_paused_schedule_has_no_slots_until_it_is_resumed(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")

    paused = await plane.schedules.pause("hourly", actor="ada", reason="a move")
    again = await plane.schedules.pause("hourly", actor="bob")
    await pass_time(plane, timedelta(hours=2), HOUR)
    resumed = await plane.schedules.resume("hourly", actor="ada")

    assert (paused.enabled, paused.next_run_at, again.paused_by, again.pause_reason) == (False, None, "ada", "a move")
    assert ran == []
    assert await slots(plane, "hourly") == []
    assert resumed.next_run_at == datetime(2026, 1, 5, 12, tzinfo=UTC)
    actions = [one.entry.action for one in await plane.store.audit.list(resumed.id)]
    assert actions == ["SCHEDULE_ADDED", "SCHEDULE_PAUSED", "SCHEDULE_RESUMED"]


async def test_a_slot_that_runs_when_its_schedule_is_paused_ends_and_the_chain_with_it(plane: TestPlane) -> None:
    _, free = slow(plane)
    await plane.schedules.add("hourly", "agent:slow", "0 * * * *")
    await plane.clock.advance(HOUR)
    await settle(plane)

    await plane.schedules.pause("hourly")
    free.set()
    await pass_time(plane, timedelta(hours=3), HOUR)

    assert await statuses(plane, "hourly") == [("10:00", "success")]
    assert await waiting_slot_jobs(plane) == []


@pytest.mark.parametrize("overlap", ["forbid", "allow"])
async def test_a_schedule_pauses_after_so_many_failures_in_a_row(plane: TestPlane, overlap: str) -> None:
    @plane.agent("broken", retry=NO_RETRIES)
    async def broken(ctx: Context) -> None:
        raise ValueError("always")

    await plane.schedules.add("hourly", "agent:broken", "0 * * * *", pause_after_failures=2, overlap=overlap)  # type: ignore[arg-type]

    await pass_time(plane, timedelta(hours=5), timedelta(minutes=30))

    schedule = await plane.schedules.get("hourly")
    assert [status for _, status in await statuses(plane, "hourly")] == ["run_failed", "run_failed"]
    assert (schedule.enabled, schedule.paused_by) == (False, "cortex.slot")
    assert schedule.pause_reason == "2 slots in a row failed"
    assert await waiting_slot_jobs(plane) == []
    assert (await plane.schedules.resume("hourly")).failures == 0


async def test_a_closed_gate_skips_slots_or_keeps_them_as_the_missed_rule_says(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("skips", "agent:report", "0 * * * *", input={"kind": "skips"})
    await plane.schedules.add("waits", "agent:report", "0 * * * *", input={"kind": "waits"}, missed="latest")
    await plane.gate.close("stock-taking")

    await pass_time(plane, timedelta(hours=2, minutes=10), timedelta(minutes=10))
    closed = await statuses(plane, "skips")
    await plane.gate.open()
    await pass_time(plane, timedelta(minutes=5), MINUTE)

    assert closed == [("10:00", "gate_closed"), ("11:00", "gate_closed")]
    assert ran == ["waits"]
    assert await statuses(plane, "waits") == [("10:00", "missed"), ("11:00", "success")]


@pytest.mark.parametrize("overlap", ["forbid", "allow"])
async def test_revoking_a_grant_stops_all_that_goes_on_under_it(plane: TestPlane, overlap: str) -> None:
    slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap=overlap)  # type: ignore[arg-type]
    await plane.schedules.add("other", "agent:slow", "0 * * * *")
    await plane.clock.advance(HOUR)
    await settle(plane)
    [running] = await slots(plane, "hourly")

    revoked = await plane.grants.revoke(schedule.grant_id, actor="ada", reason="the contract ended")

    [slot] = await slots(plane, "hourly")
    after = await plane.schedules.get("hourly")
    assert (running.status, slot.status, slot.error_code) == ("running", "error", "grant_revoked")
    assert (await plane.jobs.get(slot.run_id or "")).status is JobStatus.CANCELLED
    assert (after.enabled, after.next_run_at, after.paused_by) == (False, None, "ada")
    assert revoked.schedules == 1
    assert revoked.jobs == (2 if overlap == "forbid" else 3)
    assert (await plane.schedules.get("other")).enabled
    [_, entry] = await plane.store.audit.list(schedule.grant_id)
    assert (entry.entry.action, entry.entry.reason) == ("GRANT_REVOKED", "the contract ended")
    assert entry.entry.details == {"schedules": 1, "jobs": revoked.jobs}
    with pytest.raises(Conflict, match="already revoked by ada"):
        await plane.grants.revoke(schedule.grant_id)
    with pytest.raises(GrantRefused):
        await plane.schedules.resume("hourly")


async def test_revoking_a_grant_stops_what_its_runs_have_called(plane: TestPlane) -> None:
    @plane.agent("sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(1000)

    @plane.agent("caller")
    async def caller(ctx: Context) -> None:
        await ctx.call("sleeper")

    @plane.agent("report")
    async def report(ctx: Context) -> None:
        await ctx.call("caller")

    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    elsewhere = await plane.submit("sleeper")
    await plane.clock.advance(HOUR)
    await settle(plane)

    await plane.grants.revoke(schedule.grant_id)

    ended = {
        job.job_type: job.status for job in await plane.jobs.list() if job.id != elsewhere.id and job.job_type != "cortex.slot"
    }
    assert ended == dict.fromkeys(("report", "caller", "sleeper"), JobStatus.CANCELLED)
    assert (await plane.jobs.get(elsewhere.id)).status is JobStatus.RETRY


# -- changes -------------------------------------------------------------------------------------


async def test_a_change_of_rule_or_zone_moves_the_next_slot(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("daily", "agent:report", "0 12 * * *")

    changed = await plane.schedules.change("daily", cron="30 10 * * *", timezone="Europe/Berlin", input={"kind": "new"})
    same = await plane.schedules.change("daily", cron="30 10 * * *")
    await pass_time(plane, timedelta(hours=4), timedelta(minutes=30))

    assert changed.next_run_at == datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
    assert same.updated_at == changed.updated_at
    assert ran == ["new"]
    assert len(await waiting_slot_jobs(plane)) == 1


async def test_new_time_zone_data_is_reckoned_with_and_no_time_of_day_comes_twice(plane: TestPlane) -> None:
    reporting(plane)
    before = await plane.schedules.add("daily", "agent:report", "0 10 * * *")
    store = plane.store
    await plane.clock.advance(HOUR)
    await settle(plane)

    mended = await mend_schedules(store, plane.directory, new_id, zone_data="of tomorrow")

    after = await plane.schedules.get("daily")
    assert (mended, before.zone_data == after.zone_data, after.zone_data) == (1, False, "of tomorrow")
    assert after.next_run_at == datetime(2026, 1, 6, 10, tzinfo=UTC)
    assert len(await waiting_slot_jobs(plane)) == 1


async def test_removing_a_schedule_takes_its_slots_out_of_the_queue(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")

    await plane.schedules.remove("hourly", actor="ada")
    await pass_time(plane, timedelta(hours=2), HOUR)

    assert ran == []
    assert await waiting_slot_jobs(plane) == []
    with pytest.raises(ScheduleNotFound, match=r'no schedule "hourly"'):
        await plane.schedules.get("hourly")


async def test_slots_that_were_due_when_their_schedule_was_removed_are_in_the_ledger(plane: TestPlane) -> None:
    ran = reporting(plane)
    schedule = await plane.schedules.add("often", "agent:report", "* * * * *", missed="all", most_missed=2)
    await plane.clock.advance(minutes=3)

    await plane.schedules.remove("often")
    await settle(plane)

    assert ran == []
    found = [(f"{slot.scheduled_for:%H:%M}", slot.reason) for slot in reversed(await plane.schedules.slots(schedule.id))]
    assert found == [("09:01", "missed"), ("09:02", "removed"), ("09:03", "removed")]


async def test_a_name_is_taken_once_and_nothing_of_the_second_is_left(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")

    with pytest.raises(ScheduleExists, match="already"):
        await plane.schedules.add("hourly", "agent:report", "30 * * * *")

    assert len(await plane.grants.list()) == 1, "grant, schedule and first slot come together or not at all"
    assert len(await waiting_slot_jobs(plane)) == 1


async def test_a_slot_whose_job_was_lost_gets_another_and_ends_as_its_run_does(plane: TestPlane) -> None:
    told, free = slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *")
    await plane.clock.advance(HOUR)
    await settle(plane)
    store = plane.store
    await store.jobs.cancel((await plane.schedules.get(schedule.id)).slot_job_id or schedule.id, None, None)  # type: ignore[arg-type]

    await plane.clock.advance(HOUR)
    await mend_schedules(store, plane.directory, new_id)
    await settle(plane)
    assert await statuses(plane, "hourly") == [("10:00", "running")]
    free.set()
    await pass_time(plane, timedelta(minutes=10), timedelta(minutes=2))

    assert await statuses(plane, "hourly") == [("10:00", "success"), ("11:00", "overlap")]
    assert (told.count("ended"), len(await plane.jobs.list(agent="slow"))) == (1, 1)
    assert (await plane.schedules.get("hourly")).next_run_at == datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert len(await waiting_slot_jobs(plane)) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cron": "61 * * * *"}, r"minute must be from 0 to 59.*such as"),
        ({"cron": "0 3 * *"}, "not five"),
        ({"cron": "0 3 * * *", "timezone": "Berlin"}, "Europe/Berlin"),
        ({"cron": "0 3 * * *", "overlap": "alow"}, 'Did you mean "allow"'),
        ({"cron": "0 3 * * *", "missed": "never"}, "skip, latest, all"),
        ({"cron": "* * * * *", "jitter_seconds": 60.0}, "only 60 s apart"),
        ({"cron": "0 3 * * *", "ends_at": datetime(2026, 1, 5, tzinfo=UTC)}, "never due before"),
        ({"cron": "0 3 * * *", "pause_after_failures": 0}, "pause_after_failures must be"),
        ({"cron": "0 3 * * *", "input": [1]}, "input must be a dict"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(plane: TestPlane, asked: dict[str, object], message: str) -> None:
    reporting(plane)

    with pytest.raises(InvalidInput, match=message):
        await plane.schedules.add("wrong", "agent:report", **asked)  # type: ignore[arg-type]

    assert await plane.schedules.list() == []
    assert await plane.grants.list() == []
