"""Schedules over time: whose turn it is to look through them, the days on which clocks change, and what code declares."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from cortex_plane.durable.context import Context
from cortex_plane.errors import InvalidInput
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.testing import TestPlane
from cortex_plane.worker.reconciler import Reconciler
from tests.contract.schedule_scene import reporting, settle, slots

pytestmark = pytest.mark.anyio


async def test_of_many_workers_one_looks_through_the_schedules(plane: TestPlane) -> None:
    reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    many = [Reconciler(plane.store, plane.directory, plane._ids) for _ in range(10)]
    turns: list[bool] = []
    take_turn = plane.store.schedules.take_turn

    async def noted(rest_seconds: float) -> bool:
        turns.append(await take_turn(rest_seconds))
        return turns[-1]

    plane.store.schedules.take_turn = noted  # type: ignore[method-assign]

    await asyncio.gather(*(one.once() for one in many))
    await plane.clock.advance(minutes=4)
    await asyncio.gather(*(one.once() for one in many))
    await plane.clock.advance(minutes=1)
    await asyncio.gather(*(one.once() for one in many))

    assert [sum(turns[:10]), sum(turns[10:20]), sum(turns[20:])] == [1, 0, 1]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (datetime(2026, 3, 27, 12, tzinfo=UTC), ["03-28T01:30", "03-29T01:00", "03-30T00:30"]),
        (datetime(2026, 10, 23, 12, tzinfo=UTC), ["10-24T00:30", "10-25T00:30", "10-26T01:30"]),
    ],
    ids=["the clocks are put forward", "the clocks are put back"],
)
async def test_a_fixed_time_runs_once_on_every_day_when_the_clocks_change(
    plane: TestPlane, start: datetime, expected: list[str]
) -> None:
    ran = reporting(plane)
    await plane.clock.set(start)
    await plane.schedules.add("nightly", "agent:report", "30 2 * * *", timezone="Europe/Berlin")

    for _ in expected:
        await plane.clock.set((await plane.schedules.get("nightly")).next_run_at or start)
        await settle(plane)

    found = await slots(plane, "nightly")
    assert [f"{slot.scheduled_for:%m-%dT%H:%M}" for slot in found] == expected
    assert {slot.status for slot in found} == {"success"}
    assert len(ran) == 3


# -- in code -------------------------------------------------------------------------------------


def program(
    url: str, plane: TestPlane, *, cron: str | None = "0 9 * * mon-fri", kind: str = "full", below: bool = False
) -> Plane:
    """A program with one agent and, as the test says, a schedule over it."""
    made = Plane(settings=Settings(database_url=url), clock=plane.clock)

    async def report(ctx: Context, kind: str = "") -> None:
        return None

    if cron is None:
        made.agent("report")(report)
    elif below:
        made.agent("report")(made.schedule(cron, timezone="Europe/Berlin", input={"kind": kind})(report))
    else:
        made.schedule(cron, timezone="Europe/Berlin", input={"kind": kind})(made.agent("report")(report))
    return made


@pytest.mark.parametrize("below", [True, False])
async def test_a_worker_adds_changes_and_pauses_what_its_code_declares(plane: TestPlane, database_url: str, below: bool) -> None:
    async with program(database_url, plane, below=below) as first:
        await first.run_worker(until_idle=True)
        await first.run_worker(until_idle=True)
        [added] = await first.schedules.list()
    async with program(database_url, plane, cron="0 10 * * *", kind="short") as second:
        await second.run_worker(until_idle=True)
        [changed] = await second.schedules.list()
    async with program(database_url, plane, cron=None) as third:
        await third.run_worker(until_idle=True)
        [gone] = await third.schedules.list()
    async with program(database_url, plane) as fourth:
        await fourth.run_worker(until_idle=True)
        [back] = await fourth.schedules.list()

    assert (added.name, added.terms.graph_id, added.source, added.enabled) == ("report", "agent:report", "code", True)
    assert (changed.id, changed.terms.cron, changed.terms.input) == (added.id, "0 10 * * *", {"kind": "short"})
    assert changed.grant_id == added.grant_id
    assert (gone.enabled, gone.paused_by, gone.pause_reason) == (False, "code", "the code declares it no more")
    assert (back.enabled, back.terms.cron) == (True, "0 9 * * mon-fri")


async def test_what_an_operator_paused_stays_paused(plane: TestPlane, database_url: str) -> None:
    async with program(database_url, plane) as first:
        await first.run_worker(until_idle=True)
        await first.schedules.pause("report", actor="ada")
    async with program(database_url, plane, cron="0 10 * * *") as second:
        await second.run_worker(until_idle=True)

        schedule = await second.schedules.get("report")

    assert (schedule.enabled, schedule.paused_by, schedule.terms.cron) == (False, "ada", "0 10 * * *")


async def test_other_programs_schedules_are_left_alone(plane: TestPlane, database_url: str) -> None:
    async with program(database_url, plane) as theirs:
        await theirs.run_worker(until_idle=True)

    reporting(plane, "another")
    await plane.work()

    assert (await plane.schedules.get("report")).enabled


async def test_a_schedule_over_what_is_no_agent_is_refused(plane: TestPlane) -> None:
    reporting(plane)

    @plane.schedule("0 9 * * *")
    async def forgotten(ctx: Context) -> None:
        return None

    with pytest.raises(InvalidInput, match="forgotten, which is no agent"):
        await plane.work()
    with pytest.raises(InvalidInput, match="minute must be"):
        plane.schedule("99 9 * * *")
