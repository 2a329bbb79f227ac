"""What the engine itself asks people: about tool calls that may have happened, and about money."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import Context
from cortex_plane.testing import TestPlane
from tests.durable.approval_scene import People, counted

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("happened", "calls", "result"), [(False, 2, "shipped"), (True, 1, "it was there")])
async def test_people_settle_an_uncertain_tool_call(
    plane: TestPlane, people: People, happened: bool, calls: int, result: str
) -> None:
    done, do = counted()

    @plane.agent("ship", crash_limit=9)
    async def ship(ctx: Context) -> Any:
        return await ctx.tool("ship", on_uncertain="ask")(do, "shipped")

    job = await ship.submit()
    plane.crash_in("ship")
    await plane.work()
    await plane.work()
    request = await people.asked(job)
    assert 'Call tool "ship" again?' in request.action_summary
    assert isinstance(request.action_details, dict)
    edits = {**request.action_details, "happened": True, "result": "it was there"} if happened else None
    await people.approve(job, "alice", edits=edits)
    await plane.work()

    assert await job.result(timeout=5) == result
    assert len(done) == calls


async def test_a_spent_budget_asks_and_what_is_granted_counts(plane: TestPlane, people: People) -> None:
    @plane.agent("spender", budget_cents=100)
    async def spender(ctx: Context) -> int:
        for number in range(6):
            await ctx.step(f"spend {number}", spend, ctx)
        return 6

    async def spend(ctx: Context) -> None:
        ctx.usage(cents=60)

    job = await spender.submit()
    await plane.work()
    request = await people.asked(job)
    assert request.action_details == {"spent_cents": 120, "budget_cents": 100, "more_cents": 100}
    await people.approve(job, "alice")
    await plane.work()
    request = await people.asked(job)
    assert isinstance(request.action_details, dict)
    assert request.action_details == {"spent_cents": 240, "budget_cents": 200, "more_cents": 100}
    await people.approve(job, "alice", edits={**request.action_details, "more_cents": 1_000})
    await plane.work()

    assert await job.result(timeout=5) == 6
    assert (await plane.jobs.get(job.id)).cost_cents == 360
