"""`plane.workers`: who runs jobs, wherever that is, and asking one to leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.workers import WorkerRecord
from cortex_plane.operations.drain_worker import drain_worker
from cortex_plane.operations.find_worker import KNOWN, find_worker

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Workers:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def list(self, *, limit: int = 50) -> list[WorkerRecord]:
        """The living first, then those that ended last."""
        return await (await self._plane.store).workers.list(limit)

    async def get(self, asked: str) -> WorkerRecord:
        """By its id, by the first part of one, or by its name."""
        return await find_worker(await self._plane.store, asked)

    async def names(self) -> dict[WorkerId, str]:
        """What each is called, by its id."""
        return {worker.id: worker.name for worker in await self.list(limit=KNOWN)}

    async def busy(self) -> dict[WorkerId, int]:
        """How many runs each has at present, by its id."""
        return await (await self._plane.store).stats.runs_of_workers()

    async def drain(self, asked: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """It finishes what it has, takes nothing more, and leaves; it hears of it at its next heartbeat, within a third of its
        lease. False when it was asked already."""
        return await drain_worker(await self._plane.store, asked, actor=actor, reason=reason)
