"""Schedulers as processes, of which some are killed, through a stretch of turned time: every slot of every rule exactly once.

`make chaos-schedules` does it with ten of them and a thousand schedules for an hour.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from cortex_plane import Plane, Settings
from cortex_plane.clock import instant
from cortex_plane.errors import Contended
from cortex_plane.testing.clock import START
from tests.contract.support import Raw, raw_client
from tests.end_to_end.campaign.clock import SharedClock
from tests.end_to_end.campaign.faults import opened_execution
from tests.end_to_end.campaign.fleet import STEP, Schedulers
from tests.end_to_end.campaign.judge import Judge
from tests.end_to_end.campaign.rules import MINUTE, QUICK, SLOW_SECONDS, Rule, mixed_rules
from tests.end_to_end.campaign.worker import register_agents
from tests.end_to_end.inspection import broken_rules
from tests.http.conftest import SECRET, with_secrets

SCHEDULERS = int(os.environ.get("CAMPAIGN_SCHEDULERS", "4"))
SCHEDULES = int(os.environ.get("CAMPAIGN_SCHEDULES", "12"))
MINUTES = int(os.environ.get("CAMPAIGN_MINUTES", "3"))
SEED = int(os.environ.get("CAMPAIGN_SEED", "20260105"))
OPEN_SLOTS = "select count(*) from cortex.schedule_run where completed_at is null and scheduled_for <= {until}"
EDGE_SECONDS = 50
"""A turn before the next minute: what is locked then is locked when its slot falls due."""
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


def moment_of(raw: Raw, moment: datetime) -> str:
    return str(instant(moment)) if raw.kind == "sqlite" else f"timestamptz '{moment.isoformat()}'"


class Meddler:
    """Edits schedules in the very moment in which their slots fall due, and leaves some locked for a turn (PostgreSQL)."""

    def __init__(self, plane: Plane, url: str, rules: list[Rule], chance: random.Random) -> None:
        self._plane, self._url, self._chance = plane, url, chance
        self._names = [rule.name for rule in rules if rule.agent == QUICK]
        self._session: asyncpg.Connection | None = None
        self.edits = 0
        self.locked: list[str] = []

    async def __call__(self, now: datetime) -> None:
        await self.let_go()
        if now.second == 0:
            for name in self._chance.sample(self._names, max(1, len(self._names) // 5)):
                self.edits += 1
                with suppress(Contended):
                    await self._plane.schedules.change(name, input={"edit": self.edits})
        elif now.second == EDGE_SECONDS and not self._url.startswith("sqlite"):
            self._session = await asyncpg.connect(self._url)
            await self._session.execute("begin")
            locked = await self._session.fetch("select id from cortex.schedule order by random() limit 1 for update skip locked")
            self.locked += [str(row[0]) for row in locked]

    async def let_go(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def test_the_ledger_follows_the_runs_through_outages_edits_locks_and_frozen_workers(
    database_url: str, tmp_path: Path, clock: SharedClock, raw: Raw
) -> None:
    began, until = time.monotonic(), START + MINUTES * MINUTE
    chance = random.Random(SEED)
    rules = mixed_rules(SCHEDULES, START, MINUTES)
    await add_schedules(database_url, clock, rules)
    settings = with_secrets(Settings(database_url=database_url), internal_api_requests_per_second=1_000_000)
    async with AsyncExitStack() as stack:
        stack.enter_context(capture_logs())  # The service says each time that it was called.
        service = await stack.enter_async_context(Plane(settings=settings, clock=clock))
        execution = await stack.enter_async_context(opened_execution(service, chance))
        register_agents(service)
        workers = {"internal_api_url": f"http://127.0.0.1:{execution.port}", "internal_api_token": SECRET}
        options = {"settings": workers}
        workers_count = max(2, SCHEDULERS // 2)
        fleet = Schedulers(database_url, tmp_path, clock, tmp_path / "clock", raw, workers_count, chance, options=options)
        meddler = Meddler(service, database_url, rules, chance)
        async with fleet:
            execution.trouble.rate = 40
            kills = {START + number * MINUTE for number in range(2, MINUTES + 1, 2)}
            freezes = {START + number * MINUTE for number in range(3, MINUTES + 1, 4)}
            await fleet.turn(until, kill_at=kills, freeze_at=freezes, meanwhile=meddler)
            await meddler.let_go()
            execution.trouble.rate = 0
            while await raw(OPEN_SLOTS.format(until=moment_of(raw, until))) != [(0,)]:
                await fleet.turn(clock.moment() + STEP)
        verdict = await Judge(raw, rules, START, until, failed=execution.failed, locked=meddler.locked).judge()
        trouble = execution.trouble

        print(
            f"\n{raw.kind}: {workers_count} schedulers, {SCHEDULES:,} schedules, {fleet.turns} turns, {fleet.kills} killed, "
            f"{fleet.freezes} frozen, {meddler.edits} edits, {len(meddler.locked)} rows locked, "
            f"{time.monotonic() - began:.0f} s\n"
            f"  the execution service: {execution.requests:,} requests, {trouble.refused} refused, {trouble.uncertain} in doubt\n"
            f"  slots: {sum(verdict.slots.values()):,} of {verdict.expected:,}: {dict(verdict.slots)}\n"
            f"  charged once: {verdict.charged:,}; runs rescued: {verdict.rescued}; lost or doubled: {len(verdict.faults)}"
        )
        assert verdict.faults == []
        assert await broken_rules(database_url) == {}
