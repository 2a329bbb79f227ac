"""Says why a job is not running."""

from __future__ import annotations

from collections import Counter

from cortex_plane.core.controls import Scope
from cortex_plane.core.jobs import Job
from cortex_plane.core.why import Facts, Reason, why_waiting
from cortex_plane.ports.store import Store

MOST_WORKERS = 10_000


async def explain_job(store: Store, job: Job) -> list[Reason]:
    held = [reservation for reservation in await store.reservations.list() if reservation.queue == job.queue]
    return why_waiting(
        Facts(
            job=job,
            standing=await store.queue.standing(job.id),
            controls=await store.controls.list(),
            running=await _running(store),
            reservation=held[0] if held else None,
            workers=await _workers_for(store, job),
        )
    )


async def _running(store: Store) -> dict[tuple[Scope, str], int]:
    counts: Counter[tuple[Scope, str]] = Counter()
    for queue, job_type, tenant_id, runs in await store.queue.running():
        counts[Scope.QUEUE, queue] += runs
        counts[Scope.AGENT, job_type] += runs
        counts[Scope.TENANT, tenant_id] += runs
    return dict(counts)


async def _workers_for(store: Store, job: Job) -> int:
    workers = await store.workers.list(MOST_WORKERS)
    return sum(worker.takes_jobs and job.queue in worker.queues and job.job_type in worker.job_types for worker in workers)
