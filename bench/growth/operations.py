"""What is measured: claims, moves, lists, counts, pages, `why` and metrics, each as the product does it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.growth.originals import AGENTS, BUSY, QUEUES, TENANTS
from cortex_plane import Plane
from cortex_plane.dashboard.overview import queue_lines
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, RunId, WorkerId
from cortex_plane.jobs.search import JobFilter
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.service import look_at_failures, look_at_load, look_into_queue
from cortex_plane.queues.model import Place
from cortex_plane.queues.service import move_job, queue_states
from cortex_plane.queues.why import explain_job
from cortex_plane.worker.model import NewWorker

Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    work: Work
    times: int = 15
    repeatable: bool = True
    """A claim uses up what it takes."""


async def operations(plane: Plane) -> list[Operation]:
    store, chance = plane.store, random.Random(2)
    tenants = {tenant.name: tenant.id for tenant in await store.tenants.list()}
    agents = {agent.job_type: agent.id for agent in await store.agents.list()}
    worker = WorkerId(new_id())
    await store.workers.register(NewWorker(worker, "bench", QUEUES, AGENTS, 100, 86_400.0))
    waiting = [one.job_id for queue in QUEUES[:50] for one in await store.stats.entries(queue, 5)]
    crowd = max([await store.stats.entries(queue, 1_000) for queue in QUEUES], key=len)
    anchor, moved = crowd[len(crowd) // 2].job_id, [one.job_id for one in crowd if one is not crowd[len(crowd) // 2]]
    newest = (await store.job_search.page(JobFilter(), limit=1)).jobs[0].summary

    async def claim() -> None:
        assert len(await store.queue.claim(worker, QUEUES, AGENTS, [RunId(new_id()) for _ in range(20)])) == 20

    async def claim_from_one_queue() -> None:
        assert len(await store.queue.claim(worker, QUEUES[7:8], AGENTS, [RunId(new_id())])) == 1

    def listed(jobs: int, **wanted: Any) -> Work:
        async def work() -> None:
            assert len((await store.job_search.page(JobFilter(**wanted), limit=50)).jobs) == jobs, wanted

        return work

    async def overview() -> None:
        await look_at_load(store, plane.clock)
        await look_at_failures(store, plane.clock)
        await store.tenants.count_jobs(tenants[TENANTS[BUSY]])
        await queue_lines(plane)

    async def why() -> None:
        await explain_job(store, await plane.jobs.get(chance.choice(waiting)))

    async def move(place: Place, beside: JobId | None = None) -> None:
        await move_job(store, chance.choice(moved), place, beside)

    return [
        Operation("move before the same job", lambda: move(Place.BEFORE, anchor)),
        Operation("move to the front", lambda: move(Place.FRONT)),
        Operation("move to the back", lambda: move(Place.BACK)),
        Operation("list", listed(50)),
        *[
            Operation(f"list {status.lower()}", listed(50, status=status))
            for status in (JobStatus.PENDING, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.WAITING_FOR_APPROVAL)
        ],
        Operation("list by tag", listed(50, tag="invoice")),
        Operation("list by a tag that no job has", listed(0, tag="nowhere")),
        Operation("list by queue", listed(50, queue=QUEUES[BUSY])),
        Operation("list by a queue that no job has", listed(0, queue="nowhere")),
        Operation("list by agent", listed(50, agent_id=agents[AGENTS[BUSY]])),
        Operation("list by tenant", listed(50, tenant_id=tenants[TENANTS[BUSY]])),
        Operation("list until a while ago", listed(50, until=newest.created_at)),
        Operation("queues", lambda: queue_states(store)),
        Operation("count of a tenant", lambda: store.tenants.count_jobs(tenants[TENANTS[BUSY]])),
        Operation("overview", overview),
        Operation("page of a queue", lambda: look_into_queue(store, QUEUES[7], 10)),
        Operation("why", why),
        Operation("metrics", store.gauges.figures),
        Operation("claim of 1 from one queue", claim_from_one_queue, 7, repeatable=False),
        Operation("claim of 20", claim, 9, repeatable=False),
    ]
