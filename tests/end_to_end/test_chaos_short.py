"""Three workers, four hundred jobs, and somebody who kills workers at random: in the end every job is done once."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from cortex_plane import Submission
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.inspection import broken_rules, query

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

JOBS = 400
KILLING_SECONDS = 8.0
SEED = 20260105


async def kill_at_random(fleet: Fleet, chance: random.Random) -> int:
    workers = [fleet.start(lease_seconds=1.0, concurrency=4) for _ in range(3)]
    until, kills = time.monotonic() + KILLING_SECONDS, 0
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(0.3, 1.1))
        victim = chance.randrange(3)
        workers[victim].kill()
        await fleet.ends(workers[victim])
        kills += 1
        assert await broken_rules(fleet.url) == {}
        workers[victim] = fleet.start(lease_seconds=1.0, concurrency=4)
    return kills


async def test_every_job_is_done_once_whoever_is_killed(fleet: Fleet) -> None:
    chance = random.Random(SEED)
    async with fleet.plane(lease_seconds=1.0) as plane:
        mixture = [("steady", {"seconds": round(chance.uniform(0.05, 0.4), 3)}), ("flaky", {}), ("steady", {"seconds": 0.0})]
        await plane.submit_many(
            [
                Submission(agent, payload, priority=chance.randrange(3), serial_key=chance.choice([None] * 9 + ["a"]))
                for agent, payload in (chance.choice(mixture) for _ in range(JOBS))
            ]
        )
        kills = await kill_at_random(fleet, chance)
        for process in fleet.processes:
            process.kill()
        await fleet.finish_everything(plane)

    statuses = await query(fleet.url, "select status, count(*) from cortex.job group by status")
    assert statuses == [("COMPLETED", JOBS)]
    assert await broken_rules(fleet.url) == {}
    ((lost,),) = await query(fleet.url, "select count(*) from cortex.job_run where error = 'worker lost'")
    assert kills >= 3
    assert lost > 0
    starts = fleet.starts()
    assert len(starts) == len(set(starts))  # No run is ever started twice.
    assert len({job_id for job_id, _ in starts}) == JOBS
