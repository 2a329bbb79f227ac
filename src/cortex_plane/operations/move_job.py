"""Moves a waiting job within its queue, or changes its priority. Both keep the order total, and are audited."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import JobId
from cortex_plane.core.order import Place
from cortex_plane.operations.submit_jobs import check_priority
from cortex_plane.ports.store import Store


async def move_job(
    store: Store,
    job_id: JobId,
    place: Place,
    anchor: JobId | None = None,
    *,
    actor: str | None = None,
    reason: str | None = None,
    revision: int | None = None,
) -> None:
    """It takes the priority of its new neighbour: to stand there, it must rank with it."""
    if (anchor is None) == (place in (Place.BEFORE, Place.AFTER)):
        raise InvalidInput("before and after need another job; front and back take none.", field="anchor")
    details = {"place": place.value, **({"anchor": anchor} if anchor else {})}
    entry = AuditEntry("JOB_MOVED", "job", job_id, actor, reason, details=details)
    await store.order.move(job_id, place, anchor, entry, revision)


async def set_priority(
    store: Store,
    job_id: JobId,
    priority: int,
    *,
    actor: str | None = None,
    reason: str | None = None,
    revision: int | None = None,
) -> None:
    entry = AuditEntry("JOB_PRIORITY_SET", "job", job_id, actor, reason, details={"priority": check_priority(priority)})
    await store.order.set_priority(job_id, priority, entry, revision)
