"""Finds a worker by its id, by the first part of one, or by its name."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.core.errors import AmbiguousWorker, WorkerNotFound
from cortex_plane.core.workers import WorkerRecord
from cortex_plane.ports.store import Store

KNOWN = 1_000
SHORTEST = 4


async def find_worker(store: Store, asked: str) -> WorkerRecord:
    return one_of(await store.workers.list(limit=KNOWN), asked)


def one_of(workers: Sequence[WorkerRecord], asked: str) -> WorkerRecord:
    """A process that starts anew has its name again, under another id: then the one that lives is meant."""
    wanted = asked.strip().lower()
    named = [worker for worker in workers if worker.name.lower() == wanted]
    found = named[:1] or [worker for worker in workers if len(wanted) >= SHORTEST and worker.id.startswith(wanted)]
    if not found:
        raise WorkerNotFound(asked)
    if len(found) > 1:
        raise AmbiguousWorker(asked, [worker.id for worker in found])
    return found[0]
