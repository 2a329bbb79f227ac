"""`plane.workers`: list and drain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import AmbiguousWorker, WorkerHasEnded, WorkerNotFound

if TYPE_CHECKING:
    from cortex_plane.jobs.model import WorkerId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store
    from cortex_plane.worker.model import WorkerRecord


KNOWN = 1_000
SHORTEST = 4


async def find_worker(store: Store, asked: str) -> WorkerRecord:
    return one_of(await store.workers.list(limit=KNOWN), asked)


def one_of(workers: Sequence[WorkerRecord], asked: str) -> WorkerRecord:
    """A restarted process has the same name and another id: the name then means the live worker."""
    wanted = asked.strip().lower()
    named = [worker for worker in workers if worker.name.lower() == wanted]
    found = named[:1] or [worker for worker in workers if len(wanted) >= SHORTEST and worker.id.startswith(wanted)]
    if not found:
        raise WorkerNotFound(asked)
    if len(found) > 1:
        raise AmbiguousWorker(asked, [worker.id for worker in found])
    return found[0]


# -- drain worker ------------------------------------------------------------------------------
# Drains a worker: it finishes its jobs, claims nothing more, and stops.


async def drain_worker(store: Store, asked: str, *, actor: str | None, reason: str | None) -> bool:
    """False if it is already draining; then the first actor and reason are kept."""
    worker = await find_worker(store, asked)
    entry = AuditEntry("WORKER_DRAINED", "worker", worker.id, actor, reason, details={"name": worker.name})
    if await store.workers.drain(worker.id, entry):
        return True
    now = await find_worker(store, worker.id)
    if now.draining:
        return False
    raise WorkerHasEnded(now.id, now.name, now.standing)


# -- workers -----------------------------------------------------------------------------------
# `plane.workers`: lists workers on all machines, and drains them.


class WorkerService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def list(self, *, limit: int = 50) -> list[WorkerRecord]:
        """Live workers first, then those that ended last."""
        return await self._plane.store.workers.list(limit)

    async def get(self, asked: str) -> WorkerRecord:
        """By its id, by the first part of one, or by its name."""
        return await find_worker(self._plane.store, asked)

    async def names(self) -> dict[WorkerId, str]:
        """Names by id."""
        return {worker.id: worker.name for worker in await self.list(limit=KNOWN)}

    async def busy(self) -> dict[WorkerId, int]:
        """How many runs each has at present, by its id."""
        return await self._plane.store.stats.runs_of_workers()

    async def drain(self, asked: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """Drains a worker: it finishes its jobs, claims nothing more, and stops. It receives the request with its next
        heartbeat, within a third of its lease. False if it is already draining."""
        return await drain_worker(self._plane.store, asked, actor=actor, reason=reason)
