"""What docs/steering.md shows, done in one go."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import Context, GroupStatus, Submission
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, working

pytestmark = pytest.mark.anyio


async def test_templates_groups_costs_direct_runs_and_the_record_work_together(plane: TestPlane) -> None:
    told: list[tuple[str, str]] = []

    @plane.agent("report-bot")
    async def report(ctx: Context, day: str) -> str:
        ctx.cost(7)
        return day

    @plane.agent("release")
    async def release(ctx: Context, stage: str) -> str:
        return stage

    @plane.agent("notify")
    async def notify(ctx: Context, text: str, group: dict[str, Any]) -> None:
        told.append((text, group["status"]))

    async def was_told() -> bool:
        return bool(told)

    await plane.templates.save("nightly", "report-bot", {"day": "today"}, queue="reports", priority=5)
    async with working(plane, queues=["default", "reports"]):
        job = await plane.templates.submit("nightly", {"day": "2026-01-31"})
        group = await plane.groups.submit(
            [release.submission(stage="build"), release.submission(stage="deploy")],
            mode="sequential",
            on_failure="stop",
            callback=Submission("notify", {"text": "released"}),
        )
        assert await job.result(timeout=PATIENCE_SECONDS) == "2026-01-31"
        assert await plane.jobs.run_now("report-bot", {"day": "now"}, by="ada", timeout_seconds=20) == "now"
        assert [await member.result(timeout=PATIENCE_SECONDS) for member in group.jobs] == ["build", "deploy"]
        await eventually(was_told)

    assert told == [("released", "COMPLETED")]
    assert await group.status() is GroupStatus.COMPLETED
    assert [total.cents for total in await plane.costs.totals()] == [14]
    assert (await plane.audit.verify()).sound
