"""Asks a worker, wherever it runs, to finish what it has, take nothing more, and leave."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import WorkerHasEnded
from cortex_plane.operations.find_worker import find_worker
from cortex_plane.ports.store import Store


async def drain_worker(store: Store, asked: str, *, actor: str | None, reason: str | None) -> bool:
    """False when it was asked already; then who asked first, and why, stays."""
    worker = await find_worker(store, asked)
    entry = AuditEntry("WORKER_DRAINED", "worker", worker.id, actor, reason, details={"name": worker.name})
    if await store.workers.drain(worker.id, entry):
        return True
    now = await find_worker(store, worker.id)
    if now.draining:
        return False
    raise WorkerHasEnded(now.id, now.name, now.standing)
