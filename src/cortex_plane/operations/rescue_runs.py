"""Finds runs whose worker vanished and makes their jobs go on, as each agent's crash policy says."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cortex_plane.core.jobs import JobId, WorkerId
from cortex_plane.core.outcomes import Chance, Transition, after_crash
from cortex_plane.core.workers import actor_of
from cortex_plane.ports.clock import NewId, Random
from cortex_plane.ports.store import Store

log = structlog.get_logger()

BATCH = 100


async def declare_lost(store: Store, by: WorkerId) -> int:
    lost = await store.workers.declare_lost(by)
    for worker_id, name in lost:
        log.warning("worker_lost", worker_id=worker_id, name=name)
    return len(lost)


async def rescue_runs(
    store: Store, by: WorkerId, new_id: NewId, random: Random, tell: Callable[[Transition], None] = lambda _: None
) -> int:
    """One small batch after the other until no lost worker has an open run; returns how many were rescued. Each is told."""
    rescued = 0
    while runs := await store.workers.lost_runs(BATCH):
        transitions = [after_crash(lost, Chance(random(), JobId(new_id()))) for lost in runs]
        # Another rescuer may be faster; then these are simply no longer open.
        applied = await store.queue.finish(transitions, actor_of(by))
        rescued += len(applied)
        for transition in (one for one in transitions if one.run_id in applied):
            tell(transition)
            log.info("run_rescued", job_id=transition.job_id, run_id=transition.run_id, job_status=transition.status)
    await store.workers.close_lost()
    return rescued
