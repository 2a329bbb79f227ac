"""The fourteen invariants of scheduled execution, each by its name, as far as they need no HTTP."""

from __future__ import annotations

import pytest

from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_it_works(plane: TestPlane) -> None:
    ran: list[str] = []

    @plane.agent("report")
    async def report(ctx: object, kind: str) -> str:
        ran.append(kind)
        return kind

    schedule = await plane.schedules.add("nightly", "agent:report", "0 * * * *", input={"kind": "full"})
    assert schedule.next_run_at is not None
    await plane.clock.advance(minutes=61)
    for _ in range(4):
        await plane.work()
        await plane.clock.advance(seconds=2)

    print(await plane.schedules.slots("nightly"), await plane.schedules.get("nightly"))
    print([ (j.job_type, j.status, j.error_message) for j in await plane.list()])
    assert ran == ["full"]
    assert 0
