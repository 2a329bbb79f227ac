"""Slots: begun once, ended once, missed, overlapping, replaced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cortex_plane.durable.context import Context
from cortex_plane.errors import Unavailable
from cortex_plane.grants.execution import LocalExecution
from cortex_plane.grants.execution_service import ExecutionRefused
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.schedules.model import MissedRule, slot_key
from cortex_plane.schedules.terms import slot_jobs
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import (
    NotedExecution,
    look_after,
    pass_time,
    reporting,
    settle,
    slots,
    slow,
    statuses,
    waiting_slot_jobs,
)
from tests.contract.support import Scene, ended

pytestmark = pytest.mark.anyio


# -- missed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missed", "most", "outcome"),
    [
        ("skip", 1, ["missed", "missed", "missed", "missed"]),
        ("latest", 1, ["missed", "missed", "missed", "success"]),
        ("all", 2, ["missed", "missed", "success", "success"]),
        ("all", 9, ["success", "success", "success", "success"]),
    ],
)
@pytest.mark.parametrize("overlap", ["forbid", "allow"])
async def test_slots_that_nobody_started_in_time_follow_the_missed_rule(
    plane: TestPlane, missed: MissedRule, most: int, outcome: list[str], overlap: str
) -> None:
    reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *", missed=missed, most_missed=most, overlap=overlap)  # type: ignore[arg-type]
    await plane.clock.advance(hours=4, minutes=30)

    await settle(plane, rounds=8)

    assert [status for _, status in await statuses(plane, "hourly")] == outcome
    assert len(await waiting_slot_jobs(plane)) == 1
    assert (await plane.schedules.get("hourly")).next_run_at == datetime(2026, 1, 5, 14, tzinfo=UTC)


async def test_a_slot_is_not_missed_because_a_worker_restarted(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    await plane.clock.advance(hours=1, minutes=4)

    await settle(plane)

    assert len(ran) == 1


async def test_of_a_gap_of_a_year_a_thousand_slots_are_recorded(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("often", "agent:report", "* * * * *", missed="latest")
    await plane.clock.advance(days=365, seconds=30)

    await settle(plane, rounds=3)

    assert len(await slots(plane, "often")) == 1000
    newest = (await plane.schedules.slots("often", limit=1))[0]
    assert (newest.status, newest.scheduled_for) == ("success", datetime(2027, 1, 5, 9, tzinfo=UTC))


# -- overlap -------------------------------------------------------------------------------------


async def test_under_forbid_slots_that_fall_due_meanwhile_are_skipped(plane: TestPlane) -> None:
    _, free = slow(plane)
    await plane.schedules.add("hourly", "agent:slow", "0 * * * *")

    await pass_time(plane, timedelta(hours=3, minutes=10), timedelta(minutes=10))
    free.set()
    await pass_time(plane, timedelta(minutes=10), timedelta(minutes=2))

    assert await statuses(plane, "hourly") == [("10:00", "success"), ("11:00", "overlap"), ("12:00", "overlap")]
    assert (await plane.schedules.get("hourly")).next_run_at == datetime(2026, 1, 5, 13, tzinfo=UTC)


async def test_under_allow_slots_run_beside_each_other(plane: TestPlane) -> None:
    _, free = slow(plane)
    await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap="allow")

    await pass_time(plane, timedelta(hours=2, minutes=10), timedelta(minutes=10))
    both = await statuses(plane, "hourly")
    free.set()
    await pass_time(plane, timedelta(minutes=10), timedelta(minutes=2))

    assert both == [("10:00", "running"), ("11:00", "running")]
    assert await statuses(plane, "hourly") == [("10:00", "success"), ("11:00", "success")]


async def test_under_replace_a_slot_takes_the_place_of_the_one_that_runs(plane: TestPlane) -> None:
    slow(plane)
    await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap="replace")

    await pass_time(plane, timedelta(hours=2, minutes=10), timedelta(minutes=10))

    first, second = await slots(plane, "hourly")
    assert (first.status, first.error_code, first.replaced_by) == ("error", "replaced", second.id)
    assert (await plane.jobs.get(first.run_id or "")).status is JobStatus.CANCELLED
    assert second.status == "running"


async def test_a_run_that_has_ended_keeps_its_outcome_when_the_next_slot_begins(plane: TestPlane) -> None:
    """Nobody has looked at it since it ended."""
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *", overlap="replace")
    first = schedule.next_run_at
    assert first is not None
    await plane.clock.set(first)
    assert await look_after(plane, schedule, first) == "sleeping"
    scene = Scene(plane.store, plane.clock)
    [run] = await scene.claim(await scene.worker(), 1, job_types=("report",))
    await scene.store.queue.finish([ended(run, Done("null"))], "test")
    await plane.clock.advance(hours=1)

    assert await look_after(plane, schedule, first + timedelta(hours=1)) == "sleeping"

    assert await statuses(plane, "hourly") == [("10:00", "success"), ("11:00", "running")]


async def test_a_slot_replaces_one_that_runs_though_the_service_cannot_be_asked_about_it(plane: TestPlane) -> None:
    slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap="replace")
    first = schedule.next_run_at
    assert first is not None
    await plane.clock.set(first)
    assert await look_after(plane, schedule, first) == "sleeping"
    await plane.clock.advance(hours=1)

    away = NotedExecution(refuses_look=Unavailable("away"))
    assert await look_after(plane, schedule, first + timedelta(hours=1), away) == "sleeping"

    assert await statuses(plane, "hourly") == [("10:00", "replaced"), ("11:00", "running")]


async def test_a_slot_that_is_replaced_while_it_starts_leaves_nothing_behind(plane: TestPlane) -> None:
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *", overlap="replace")
    assert schedule.next_run_at is not None
    at = schedule.next_run_at
    await plane.clock.set(at)

    async def meanwhile() -> None:
        [slot] = await slots(plane, "hourly")
        make_job = await slot_jobs(plane.store, plane.directory, new_id)
        await plane.store.slots.end(slot.id, "error", "replaced", "in the middle", make_job)

    service = NotedExecution(meanwhile=meanwhile)
    ended = await look_after(plane, schedule, at, service)

    assert ended == "ended meanwhile"
    assert [call[0] for call in service.calls] == ["start", "stop"]


async def test_a_run_that_was_started_and_not_noted_is_stopped_when_its_slot_is_replaced(plane: TestPlane) -> None:
    """The worker died between starting the run and noting it."""
    slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap="replace")
    store, at = plane.store, schedule.next_run_at
    assert at is not None
    await plane.clock.set(at)
    make_job = await slot_jobs(store, plane.directory, new_id)
    first_job = JobId(schedule.slot_job_id or "")
    await store.slots.begin(schedule.id, at, "cron", first_job, make_job)
    service = LocalExecution(store, plane.directory, plane.clock, new_id)
    started = await service.start("agent:slow", slot_key(schedule.id, at), schedule.grant_id, {}, "cortex-scheduler")

    await plane.clock.advance(hours=1)
    await settle(plane)

    first, second = await slots(plane, "hourly")
    assert (first.error_code, second.status) == ("replaced", "running")
    assert (await plane.jobs.get(started.run_id)).status is JobStatus.CANCELLED


async def test_an_execution_service_that_is_away_for_hours_costs_no_slot(plane: TestPlane) -> None:
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    at = schedule.next_run_at
    assert at is not None
    await plane.clock.set(at)
    service = NotedExecution(refuses=Unavailable("The execution service answered 503: away"))

    away = [await look_after(plane, schedule, at, service)]
    await plane.clock.advance(hours=5)
    away.append(await look_after(plane, schedule, at, service))
    service.refuses = None
    ended = await look_after(plane, schedule, at, service)

    assert (away, ended) == (["sleeping", "sleeping"], "success")
    assert (await slots(plane, "hourly"))[0].status == "success"


async def test_a_start_that_is_refused_though_it_was_carried_out_leaves_the_slot_with_its_run(plane: TestPlane) -> None:
    """The service has started the run, and what stands between answers otherwise."""
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    store, at = plane.store, schedule.next_run_at
    assert at is not None
    await plane.clock.set(at)
    real = LocalExecution(store, plane.directory, plane.clock, new_id)

    async def meanwhile() -> None:
        await real.start("agent:report", slot_key(schedule.id, at), schedule.grant_id, {}, "cortex-scheduler")

    refusing = NotedExecution(refuses=ExecutionRefused("http_403", "The execution service answered 403"), meanwhile=meanwhile)
    first = await look_after(plane, schedule, at, refusing)
    await plane.work()
    ended = await look_after(plane, schedule, at, real)

    assert (first, ended) == ("sleeping", "success")
    assert [slot.status for slot in await slots(plane, "hourly")] == ["success"]


async def test_a_run_whose_stop_is_refused_does_not_cost_the_slot_that_replaces_it(plane: TestPlane) -> None:
    slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap="replace")
    assert schedule.next_run_at is not None
    await plane.clock.set(schedule.next_run_at)
    await settle(plane)
    await plane.clock.advance(hours=1)

    service = NotedExecution(state="running", refuses_stop=ExecutionRefused("unknown_target", "There is no such run."))
    second = await look_after(plane, schedule, schedule.next_run_at + timedelta(hours=1), service)

    assert second == "sleeping"
    assert [slot.status for slot in await slots(plane, "hourly")] == ["error", "running"]


async def test_a_replaced_run_is_stopped_though_the_service_is_away_for_hours(plane: TestPlane) -> None:
    """The slot that replaced it was replaced meanwhile, so that only its own job can stop it."""
    slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *", overlap="replace")
    assert schedule.next_run_at is not None
    at = schedule.next_run_at
    await plane.clock.set(at)
    await plane.work()
    [first] = await slots(plane, "hourly")
    store = plane.store
    make_job = await slot_jobs(store, plane.directory, new_id)
    await store.slots.end(first.id, "error", "replaced", "The slot of 11:00 took its place.", make_job)

    away = NotedExecution(refuses_stop=Unavailable("The execution service answered 503: away"))
    looks = []
    for _ in range(5):
        looks.append(await look_after(plane, schedule, at, away))
        await plane.clock.advance(hours=1)
    ended = await look_after(plane, schedule, at)

    assert (set(looks), ended) == ({"sleeping"}, "error")
    assert (await plane.jobs.get(first.run_id or "")).status is JobStatus.CANCELLED


async def test_a_run_that_is_retried_as_another_job_is_one_run_and_each_try_is_charged_to_it(plane: TestPlane) -> None:
    tries: list[str] = []

    @plane.agent("flaky", retry=RetryPolicy(mode="chain", max_retries=3))
    async def flaky(ctx: Context) -> None:
        ctx.usage(cents=3)
        tries.append(ctx.job_id)
        if len(tries) < 3:
            raise ValueError("not yet")

    await plane.schedules.add("hourly", "agent:flaky", "0 * * * *")
    await plane.clock.advance(hours=1)
    for _ in range(10):
        await settle(plane)
        await plane.clock.advance(seconds=10)

    [slot] = await slots(plane, "hourly")
    [total] = await plane.billing.totals()
    assert (slot.status, slot.run_id, len(set(tries))) == ("success", tries[0], 3)
    assert [one.quantity for one in await plane.billing.receipts(tries[0])] == [3, 3, 3]
    assert (total.quantity, total.runs) == (9, 1)
