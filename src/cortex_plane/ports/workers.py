"""What we need of a database for workers and their leases."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import WorkerId
from cortex_plane.core.outcomes import LostRun
from cortex_plane.core.workers import Beat, NewWorker, WorkerRecord


class Workers(Protocol):
    async def register(self, worker: NewWorker) -> None: ...

    def beat(self, worker_id: WorkerId, timeout_seconds: float) -> Beat:
        """Renews the lease; LOST when the worker is not LIVE. Blocking, and callable from any thread."""

    async def drain(self, worker_id: WorkerId, entry: AuditEntry) -> bool:
        """Asks it to finish what it has and leave: its next heartbeat says so. False when it is not LIVE or was asked already."""

    async def leave(self, worker_id: WorkerId) -> bool: ...

    async def give_up(self, worker_id: WorkerId) -> bool:
        """Declares oneself LOST, so that others rescue at once."""

    async def declare_lost(self, by: WorkerId) -> list[tuple[WorkerId, str]]:
        """Every other worker whose lease has run out, now LOST: id and name."""

    async def lost_runs(self, limit: int) -> list[LostRun]: ...

    async def close_lost(self) -> None:
        """Ends the rescue of lost workers that have no open run left."""

    async def list(self, limit: int = 50) -> list[WorkerRecord]: ...
