"""A worker that goes on by itself keeps the deadlines of approvals."""

from __future__ import annotations

import pytest

from cortex_plane import JobStatus
from cortex_plane.approvals.deadlines import LONGEST_REST_SECONDS, Deadlines
from tests.notifications.office import Office
from tests.runtime.helpers import eventually, status_becomes, working

pytestmark = pytest.mark.anyio


async def test_a_worker_reminds_escalates_and_ends_by_itself(office: Office) -> None:
    await office.person("alice", "email")
    await office.person("boss", "email")
    job = await office.asked("alice", ttl=3600, remind=1800, escalate={"to": "boss", "after": 2400})

    async def alice_was_reminded() -> bool:
        return len(office.services.emails_to("alice")) == 2

    async def boss_was_asked() -> bool:
        return len(office.services.emails_to("boss")) == 1

    async with working(office.plane):
        await office.clock.advance(seconds=1800)
        await eventually(alice_was_reminded)
        await office.clock.advance(seconds=600)
        await eventually(boss_was_asked)
        await office.clock.advance(seconds=1200)
        await status_becomes(job, JobStatus.FAILED)


async def test_two_workers_that_look_at_once_do_it_once(office: Office) -> None:
    await office.person("alice", "email")
    await office.asked("alice", ttl=3600, remind=1800)
    await office.clock.advance(seconds=1800)

    await Deadlines(office.store).act()
    await Deadlines(office.store).act()

    assert len(await office.notices(purpose="remind")) == 1


async def test_it_rests_until_something_is_due_but_never_long(office: Office) -> None:
    """Somebody may open a request that is due sooner."""
    deadlines = Deadlines(office.store)
    assert await deadlines.once() == LONGEST_REST_SECONDS
    await office.person("alice", "email")
    await office.asked("alice", ttl=3600)
    assert await deadlines.once() == LONGEST_REST_SECONDS

    await office.clock.advance(seconds=3599.5)

    assert await deadlines.once() == pytest.approx(0.5)
