"""Many queues and many agents: a claim takes the best of what its worker can run, whatever stands before it for others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, NewJob
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

QUEUES = [f"queue-{number}" for number in range(6)]
AGENTS = [f"agent-{number}" for number in range(7)]


async def submit(scene: Scene, count: int, queues: Sequence[str], agents: Sequence[str]) -> list[NewJob]:
    chance = random.Random(count)
    samples = {agent: await scene.new_job(agent) for agent in agents}
    jobs = [
        replace(
            samples[chance.choice(agents)], id=JobId(new_id()), queue=chance.choice(queues), priority=chance.choice((0, 0, 0, 5))
        )
        for _ in range(count)
    ]
    await scene.store.jobs.submit(jobs)
    return sorted(jobs, key=lambda job: -job.priority)


async def claimed(scene: Scene, queues: Sequence[str], agents: Sequence[str], *sizes: int) -> list[JobId]:
    worker = await scene.worker()
    return [one.job_id for size in sizes for one in await scene.claim(worker, size, queues, agents)]


def of(jobs: Sequence[NewJob], queues: Sequence[str], agents: Sequence[str]) -> list[JobId]:
    return [job.id for job in jobs if job.queue in queues and job.job_type in agents]


@pytest.mark.parametrize("queues", [QUEUES, QUEUES[:2], QUEUES[:1]], ids=["all queues", "two queues", "one queue"])
@pytest.mark.parametrize("agents", [AGENTS, AGENTS[:3], AGENTS[:1]], ids=["all agents", "three agents", "one agent"])
async def test_a_claim_takes_the_best_in_one_order(scene: Scene, queues: Sequence[str], agents: Sequence[str]) -> None:
    jobs = await submit(scene, 300, QUEUES, AGENTS)

    assert await claimed(scene, queues, agents, 1, 5, 20, 7, 300) == of(jobs, queues, agents)


@pytest.mark.parametrize("queues", [QUEUES, QUEUES[:1]], ids=["all queues", "one queue"])
async def test_a_crowd_for_other_agents_blocks_nobody(scene: Scene, queues: Sequence[str]) -> None:
    """More stand before its own than a claim looks at; and some behind them."""
    await submit(scene, 600, queues, AGENTS[3:])
    own = await submit(scene, 30, queues, AGENTS[:3])
    await submit(scene, 600, queues, AGENTS[3:])

    assert await claimed(scene, queues, AGENTS[:3], 4, 4, 50) == [job.id for job in own]


async def test_the_planes_own_agents_are_claimed_from_the_planes_own_queue_alone(scene: Scene) -> None:
    jobs = await submit(scene, 5, ["cortex"], ["cortex.notify", "cortex.webhook", "cortex.children"])
    agents = ["cortex.notify", "cortex.webhook", "cortex.children", *AGENTS]
    await submit(scene, 5, ["default"], ["cortex.notify"])

    assert await claimed(scene, ["default", *QUEUES], agents, 10) == []
    assert await claimed(scene, ["default", "cortex"], agents, 10) == [job.id for job in jobs]
