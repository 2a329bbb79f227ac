"""How long finished jobs are kept: `plane.retention`. Without a rule, for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cortex_plane.core.retention import RetentionRule
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.keep_jobs import add_rule, remove_rule
from cortex_plane.operations.prune_jobs import ACTOR, prune_jobs

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Retention:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self,
        keep: float | timedelta,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: JobStatus | str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> RetentionRule:
        """Jobs are deleted so long after their end. What is left out holds for all; the most specific rule wins."""
        opened = await self._plane._open_here()
        return await add_rule(
            opened.store,
            opened.directory,
            self._plane._ids,
            keep,
            tenant=tenant,
            agent=agent,
            status=status,
            actor=actor,
            reason=reason,
        )

    async def list(self) -> list[RetentionRule]:
        return await (await self._plane._open_here()).store.retention.list()

    async def remove(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> RetentionRule:
        return await remove_rule((await self._plane._open_here()).store, id_or_prefix, actor=actor, reason=reason)

    async def run(self, *, actor: str = ACTOR) -> int:
        """One pass now, instead of waiting for a worker's; returns how many jobs were deleted."""
        store = (await self._plane._open_here()).store
        deleted, after = 0, None
        while True:
            batch = await prune_jobs(store, after, actor=actor)
            deleted += batch.deleted
            after = batch.after
            if after is None:
                return deleted
