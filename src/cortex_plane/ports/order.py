"""Where waiting jobs stand."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import JobId
from cortex_plane.core.order import Place


class Order(Protocol):
    """Each change counts the job's revision up, and is refused (RevisionChanged) when that is not the one that is given."""

    async def move(
        self, job_id: JobId, place: Place, anchor: JobId | None, entry: AuditEntry, revision: int | None = None
    ) -> None:
        """Within its queue, taking the priority of its new neighbour. Raises NotWaiting, JobNotFound or InvalidInput."""

    async def set_priority(self, job_id: JobId, priority: int, entry: AuditEntry, revision: int | None = None) -> None: ...
