"""Many who ask at once: one run for one key, no use more than a grant is good for, and nothing that outlives a revocation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.grants.model import GrantRefused, Started
from cortex_plane.ids import new_id
from cortex_plane.jobs.states import JobStatus
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import look_after, reporting, slots

pytestmark = pytest.mark.anyio

MANY = 8
Start = Callable[[str], Awaitable[Started]]


async def starter(plane: TestPlane, grant_id: str) -> Start:
    store = plane.store
    directory = plane.directory

    async def start(key: str) -> Started:
        return await start_run(store, directory, plane.clock, new_id, RunWish("agent:report", key, grant_id, {}))

    return start


async def test_one_key_is_one_run_however_many_ask_at_once(plane: TestPlane) -> None:
    reporting(plane)
    grant = await plane.grants.add(["agent:run:report"])
    start = await starter(plane, grant.id)

    answers = await asyncio.gather(*(start("the-key") for _ in range(MANY)))

    assert len({answer.run_id for answer in answers}) == 1
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * (MANY - 1)
    assert len(await plane.jobs.list()) == 1
    assert (await plane.grants.get(grant.id)).uses == 1


async def test_a_grant_is_not_used_more_often_than_it_is_good_for(plane: TestPlane) -> None:
    reporting(plane)
    grant = await plane.grants.add(["agent:run:report"], max_uses=2)
    start = await starter(plane, grant.id)

    answers = await asyncio.gather(*(start(f"key-{number}") for number in range(MANY)), return_exceptions=True)

    assert len([answer for answer in answers if isinstance(answer, Started)]) == 2
    assert len([answer for answer in answers if isinstance(answer, GrantRefused)]) == MANY - 2
    assert len(await plane.jobs.list()) == 2


async def test_what_is_started_while_a_grant_is_revoked_is_stopped_or_refused(plane: TestPlane) -> None:
    reporting(plane)
    grant = await plane.grants.add(["agent:run:report"])
    start = await starter(plane, grant.id)

    await asyncio.gather(
        *(start(f"a{number}") for number in range(MANY)),
        plane.grants.revoke(grant.id),
        *(start(f"b{number}") for number in range(MANY)),
        return_exceptions=True,
    )

    assert {job.status for job in await plane.jobs.list()} <= {JobStatus.CANCELLED}


@pytest.mark.parametrize(("change", "answer", "left"), [("paused", "skipped", "skipped"), ("rule", "superseded", "pending")])
async def test_a_job_of_a_slot_that_the_schedule_has_left_does_nothing(
    plane: TestPlane, change: str, answer: str, left: str
) -> None:
    """It was claimed just before; cancelling it came too late. A slot that was due before the change has another job."""
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    assert schedule.next_run_at is not None
    await plane.clock.set(schedule.next_run_at)
    if change == "paused":
        await plane.schedules.pause("hourly")
    else:
        await plane.schedules.change("hourly", cron="30 * * * *")

    seen = await look_after(plane, schedule, schedule.next_run_at)

    assert seen == answer
    assert [slot.status for slot in await slots(plane, "hourly")] == [left]
