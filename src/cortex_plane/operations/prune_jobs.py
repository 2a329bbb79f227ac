"""Deletes finished jobs that the retention rules no longer keep, one small batch at a time, oldest first.

Ids sort by age, so a pass walks them from the oldest, and each batch goes on where the last one ended. A pass is over when it
comes to jobs that are too young for any rule, or to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cortex_plane.core.jobs import JobId
from cortex_plane.core.retention import LookedAt, RetentionRule, condemned, too_young
from cortex_plane.ports.store import Store

BATCH = 200
LOOKED_AT = 1000
ACTOR = "retention"


class Pruned(NamedTuple):
    deleted: int
    after: JobId | None
    """Where the next batch begins; None when the pass is over."""


async def prune_jobs(store: Store, after: JobId | None = None, *, actor: str = ACTOR) -> Pruned:
    """Looks at some jobs and deletes at most 200 of them. Runs and history go with a job; its entries in the audit log, its
    key and what it has cost stay. A job that something live may still ask for is passed over until the next time."""
    rules = await store.retention.list()
    jobs = await store.retention.window(after, LOOKED_AT) if rules else []
    if not jobs:
        return Pruned(0, None)
    doomed = condemned(rules, jobs)
    deleted = await store.retention.delete(doomed[:BATCH], actor)
    if len(doomed) > BATCH:
        return Pruned(deleted, doomed[BATCH - 1].job.id)
    return Pruned(deleted, None if _is_last(rules, jobs) else jobs[-1].id)


def _is_last(rules: Sequence[RetentionRule], jobs: Sequence[LookedAt]) -> bool:
    return len(jobs) < LOOKED_AT or too_young(rules, jobs)
