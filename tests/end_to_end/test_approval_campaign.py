"""Workers as processes, of which some are killed and some frozen, five services that fail, hang and are busy, and rows that are
locked: every approver is told, the newest link decides, each request is closed once, and everybody hears how it ended.

`make chaos-approvals` does it with more of everything.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from cortex_plane import Plane, Settings
from cortex_plane.testing.clock import START
from tests.contract.support import Raw, raw_client
from tests.end_to_end.campaign.approvals import TTL_SECONDS, Campaign, moments, opened_world
from tests.end_to_end.campaign.approver import register_agents
from tests.end_to_end.campaign.clock import SharedClock
from tests.end_to_end.campaign.fleet import STEP, Schedulers
from tests.end_to_end.inspection import broken_rules

WORKERS = int(os.environ.get("CAMPAIGN_WORKERS", "2"))
REQUESTS = int(os.environ.get("CAMPAIGN_REQUESTS", "6"))
MINUTES = int(os.environ.get("CAMPAIGN_MINUTES", "1"))
FAULT_RATE = 40
LOCKED_SECONDS = 2.0
QUIET_STEPS = 90
"""So long after the last deadline everything is over: a message that failed a few times is tried again after some minutes."""
SEED = int(os.environ.get("CAMPAIGN_SEED", "20260105"))

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120 + 60 * MINUTES)]


@pytest.fixture
def clock(tmp_path: Path) -> SharedClock:
    return SharedClock(tmp_path / "clock", START)


@pytest.fixture
async def raw(database_url: str, clock: SharedClock) -> AsyncIterator[Raw]:
    async with raw_client(database_url, clock) as raw:
        yield raw


class Locker:
    """Somebody at a prompt of PostgreSQL, who leaves a few waiting jobs and requests locked for a while."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self._url, self._chance = url, chance
        self._session: asyncpg.Connection | None = None
        self._leaving: asyncio.Task[None] | None = None
        self.locks = 0

    @property
    def holds(self) -> bool:
        return self._session is not None

    async def change_mind(self) -> None:
        if self._url.startswith("sqlite"):
            return
        if self.holds:
            return
        self._session = await asyncpg.connect(self._url)
        await self._session.execute("begin")
        table = self._chance.choice(["job j join cortex.approval_request r on r.job_id = j.id", "approval_request r"])
        of = "j" if table.startswith("job") else "r"
        with suppress(asyncpg.PostgresError):
            found = await self._session.fetch(
                f"select r.id from cortex.{table} where r.outcome is null limit 3 for update of {of} skip locked"
            )
            self.locks += len(found)
        self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        await asyncio.sleep(LOCKED_SECONDS)
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def let_go(self) -> None:
        if self._leaving is not None:
            await self._leaving


async def test_everybody_is_told_and_the_newest_link_decides_whatever_fails(
    database_url: str, tmp_path: Path, clock: SharedClock, raw: Raw
) -> None:
    chance, began = random.Random(SEED), time.monotonic()
    stormy = START + timedelta(minutes=MINUTES)
    plane = Plane(settings=Settings(database_url=database_url), clock=clock)
    register_agents(plane)
    async with opened_world(chance) as world, plane:
        if not database_url.startswith("sqlite"):
            await clock.rule(database_url)
        options = {"settings": world.services.settings}
        program = "tests.end_to_end.campaign.approver"
        fleet = Schedulers(database_url, tmp_path, clock, tmp_path / "clock", raw, WORKERS, chance, program, options)
        campaign, locker = Campaign(plane, world, fleet, raw, chance, REQUESTS), Locker(database_url, chance)
        await campaign.people()
        turns = max(1, int(timedelta(minutes=MINUTES) / STEP) - 2)

        async def trouble(now: datetime) -> None:
            await campaign.ask(1 + REQUESTS // turns)
            if not locker.holds:  # Somebody who decides about a locked request would wait for the lock, and be told to try again.
                await campaign.decide(0.25)
            await locker.change_mind()

        async def calm(now: datetime) -> None:
            await campaign.decide(0.25)

        async with fleet:
            world.rate(FAULT_RATE)
            kills = moments(START, stormy, 3 * STEP, 2 * STEP)
            freezes = moments(START, stormy, 9 * STEP, 4 * STEP)
            await fleet.turn(stormy, kill_at=kills, freeze_at=freezes, meanwhile=trouble)
            await locker.let_go()
            await campaign.ask(REQUESTS)
            world.rate(0)
            quiet = clock.moment() + timedelta(seconds=TTL_SECONDS) + QUIET_STEPS * STEP
            while clock.moment() < quiet and not await campaign.is_over():
                await fleet.turn(clock.moment() + STEP, meanwhile=calm)
        tallies = await campaign.judge()

        print(
            f"\n{raw.kind}: {WORKERS} workers, {len(campaign.jobs)} requests, {fleet.turns} turns of {STEP.seconds} s, "
            f"{fleet.kills} killed, {fleet.freezes} frozen, {locker.locks} rows locked, {len(campaign.decided)} decided, "
            f"{campaign.repeated} answers repeated, {time.monotonic() - began:.0f} s\n{campaign.table(tallies)}"
        )
        assert campaign.faults == [], "\n".join(campaign.faults)
        assert await broken_rules(database_url) == {}
