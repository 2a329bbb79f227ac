"""`plane.queues` and `plane.gate`; moves within a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.fields import check_priority
from cortex_plane.queues import controls
from cortex_plane.queues.model import Control, Place, QueueState, Reservation, ReservationId, Scope
from cortex_plane.queues.reservations import release

if TYPE_CHECKING:
    from cortex_plane.jobs.model import JobId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def queue_states(store: Store) -> list[QueueState]:
    """Returns all queues, sorted by name."""
    depths = await store.queue.depths()
    set_for = {control.name: control for control in await store.controls.list() if control.scope is Scope.QUEUE}
    running: dict[str, int] = {}
    for queue, _, _, count in await store.queue.running():
        running[queue] = running.get(queue, 0) + count
    return [
        QueueState(
            name=name,
            waiting=depths.get(name, {}),
            running=running.get(name, 0),
            control=set_for.get(name) or Control(Scope.QUEUE, name),
        )
        for name in sorted({*depths, *running, *set_for})
    ]


# -- move job ----------------------------------------------------------------------------------
# Moves a waiting job within its queue, or changes its priority. Both are recorded in the audit log.


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
    """Moves a waiting job. It takes the priority of its new neighbour. Raises JobNotFound, JobNotQueued or InvalidInput."""
    if (anchor is None) == (place in (Place.BEFORE, Place.AFTER)):
        raise InvalidInput("before and after need an anchor job; front and back take none.", field="anchor")
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


# -- services ----------------------------------------------------------------------------------


class QueueService:
    """`plane.queues`: list, pause and limit queues, agents and tenants; fair share; reservations.

    Methods that take `queue`, `agent` and `tenant` need exactly one of them."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def controls(self) -> list[Control]:
        """Returns every pause, hold, limit, fair share and budget that is set."""
        return await self._plane.store.controls.list()

    async def pause(
        self,
        queue: str | None = None,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        """Stops claims from a queue, or of an agent's or a tenant's jobs. Running jobs finish; new jobs are accepted.

        Idempotent: the first actor and reason are kept. Returns False if it was already paused. Raises InvalidInput, or
        UnknownAgent or TenantNotFound."""
        scope, name = await controls.named(self._plane.directory, queue, agent, tenant)
        return await controls.pause(self._plane.store, scope, name, actor=actor, reason=reason)

    async def resume(
        self,
        queue: str | None = None,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        """Lifts a pause or a hold. Returns False if there was none."""
        scope, name = await controls.named(self._plane.directory, queue, agent, tenant)
        return await controls.resume(self._plane.store, scope, name, actor=actor, reason=reason)

    async def limit(
        self,
        max_running: int | None,
        *,
        queue: str | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        """Limits the number of running jobs over all workers; None lifts the limit. Returns False if nothing changed.

        Raises InvalidInput unless the limit is from 1 to 1,000,000."""
        scope, name = await controls.named(self._plane.directory, queue, agent, tenant)
        return await controls.limit(self._plane.store, scope, name, max_running, actor=actor, reason=reason)

    async def share_fairly(self, queue: str, share: bool = True, *, actor: str | None = None) -> bool:
        """Switches fair share: claims rotate between the tenants of the queue. Returns False if nothing changed."""
        return await controls.share_fairly(self._plane.store, queue, share, actor=actor)

    async def reservations(self) -> list[Reservation]:
        """Returns the active reservations: queues that are reserved for one job."""
        return await self._plane.store.reservations.list()

    async def release(self, reservation_id: str, *, by: str, reason: str | None = None, force: bool = False) -> None:
        """Ends a reservation; its job stays in the queue. `by` must be its holder, unless `force` is set.

        Raises NotFound, Denied, or Conflict if it has already ended."""
        await release(self._plane.store, ReservationId(reservation_id), by=by, reason=reason, force=force)

    async def list(self) -> list[QueueState]:
        """Returns every queue that has waiting or running jobs, or a setting; sorted by name."""
        return await queue_states(self._plane.store)


class GateService:
    """`plane.gate`: the switch that stops all claims. Submission and crash recovery continue."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def close(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        """Stops all claims: none begins after this returns. Running jobs finish. Returns False if it was already closed."""
        return await controls.pause(self._plane.store, Scope.GATE, controls.GATE_NAME, actor=actor, reason=reason)

    async def open(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        """Allows claims again. Returns False if it was already open."""
        return await controls.resume(self._plane.store, Scope.GATE, controls.GATE_NAME, actor=actor, reason=reason)


def place_of(before: str | None, after: str | None, front: bool, back: bool) -> tuple[Place, str | None]:
    given = [
        (place, anchor)
        for place, anchor, is_given in (
            (Place.BEFORE, before, before is not None),
            (Place.AFTER, after, after is not None),
            (Place.FRONT, None, front),
            (Place.BACK, None, back),
        )
        if is_given
    ]
    if len(given) != 1:
        raise InvalidInput("Give exactly one of before, after, front and back.", field="place")
    return given[0]
