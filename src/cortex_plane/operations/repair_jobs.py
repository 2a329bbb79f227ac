"""Repairs jobs that are RUNNING though their run is closed or missing.

The triggers of the database make such rows impossible; a restored or damaged database may hold them all the same.
    no run       one is opened and closed as FAILED, and the retry policy decides, as after any crash
    closed run   the job takes the outcome of its run
"""

from __future__ import annotations

import structlog

from cortex_plane.core.jobs import JobId
from cortex_plane.core.outcomes import Chance, after_closed_run, after_crash
from cortex_plane.ports.clock import NewId, Random
from cortex_plane.ports.store import Store

log = structlog.get_logger()

BATCH = 100
ACTOR = "repair"


async def repair_jobs(store: Store, new_id: NewId, random: Random) -> int:
    repaired = 0
    while broken := await store.queue.broken_jobs(BATCH):
        transitions = []
        for job in broken:
            if job.run_status is None:
                await store.queue.open_missing_run(job.lost.claimed.job_id)
            chance = Chance(random(), JobId(new_id()))
            transitions.append(after_crash(job.lost, chance) if job.run_status is None else after_closed_run(job, job.run_status))
        applied = await store.queue.finish(transitions, ACTOR)
        for transition in transitions:
            log.warning("job_repaired", job_id=transition.job_id, status=transition.status)
        repaired += len(applied)
        if not applied:
            break
    return repaired
