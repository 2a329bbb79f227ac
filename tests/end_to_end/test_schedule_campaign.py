"""Schedulers as processes, of which some are killed, through a stretch of turned time: every slot of every rule exactly once.

`make chaos-schedules` does it with ten of them and a thousand schedules for an hour.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from cortex_plane import Plane, Settings
from cortex_plane.testing.clock import START
from tests.contract.support import Raw, raw_client
from tests.end_to_end.campaign.clock import SharedClock
from tests.end_to_end.campaign.fleet import Schedulers
from tests.end_to_end.campaign.judge import Judge
from tests.end_to_end.campaign.rules import MINUTE, SLOW_SECONDS, Rule, mixed_rules
from tests.end_to_end.campaign.worker import register_agents
from tests.end_to_end.inspection import broken_rules

SCHEDULERS = int(os.environ.get("CAMPAIGN_SCHEDULERS", "4"))
SCHEDULES = int(os.environ.get("CAMPAIGN_SCHEDULES", "12"))
MINUTES = int(os.environ.get("CAMPAIGN_MINUTES", "3"))
SEED = 20260105
ENOUGH_DEATHS = 10
"""Of so many, some leave a run behind that has to be rescued."""

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180 + 30 * MINUTES)]


@pytest.fixture
def clock(tmp_path: Path) -> SharedClock:
    return SharedClock(tmp_path / "clock", START)


@pytest.fixture
async def raw(database_url: str, clock: SharedClock) -> AsyncIterator[Raw]:
    async with raw_client(database_url, clock) as raw:
        yield raw


async def add_schedules(url: str, clock: SharedClock, rules: list[Rule]) -> None:
    async with Plane(settings=Settings(database_url=url), clock=clock) as plane:
        if not url.startswith("sqlite"):
            await clock.rule(url)
        register_agents(plane)
        for rule in rules:
            await plane.schedules.add(rule.name, f"agent:{rule.agent}", rule.cron, **rule.terms())


async def test_every_slot_runs_exactly_once_whoever_is_killed(
    database_url: str, tmp_path: Path, clock: SharedClock, raw: Raw
) -> None:
    began, until = time.monotonic(), START + MINUTES * MINUTE
    rules = mixed_rules(SCHEDULES, START, MINUTES)
    await add_schedules(database_url, clock, rules)

    fleet = Schedulers(database_url, tmp_path, clock, tmp_path / "clock", raw, SCHEDULERS, random.Random(SEED))
    async with fleet:
        await fleet.turn(until, kill_at={START + number * MINUTE for number in range(2, MINUTES + 1, 2)})
        await fleet.turn(until + timedelta(seconds=2 * SLOW_SECONDS))
    verdict = await Judge(raw, rules, START, until).judge()

    print(
        f"\n{raw.kind}: {SCHEDULERS} schedulers, {SCHEDULES:,} schedules, {MINUTES} minutes turned in {fleet.turns} steps, "
        f"{fleet.kills} killed and started anew, {time.monotonic() - began:.0f} s\n"
        f"  slots: {sum(verdict.slots.values()):,} of {verdict.expected:,}: {dict(verdict.slots)}\n"
        f"  charged once: {verdict.charged:,}; runs that were rescued: {verdict.rescued}; faults: {len(verdict.faults)}"
    )
    assert verdict.faults == []
    assert fleet.kills >= MINUTES // 2
    assert verdict.rescued > 0 or fleet.kills < ENOUGH_DEATHS
    assert await broken_rules(database_url) == {}
