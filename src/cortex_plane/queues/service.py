"""Part of `Plane`: pause, limit, share, move, run now, why."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from cortex_plane.audit.model import AuditEntry
from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.fields import Submission, SubmitOptions, check_submit_options
from cortex_plane.jobs.lookup import find_job, find_job_id
from cortex_plane.jobs.submission import check_priority, checked
from cortex_plane.queues import controls as steer_work
from cortex_plane.queues.model import DEFAULT_TTL_SECONDS, Control, Place, QueueState, Reservation, ReservationId, Scope
from cortex_plane.queues.reservations import release, run_now
from cortex_plane.queues.why import Reason, explain_job

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.clock import Clock
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.model import JobId
    from cortex_plane.stores import Store


async def look_at_queues(store: Store) -> list[QueueState]:
    """By name."""
    depths = await store.queue.depths()
    controls = {control.name: control for control in await store.controls.list() if control.scope is Scope.QUEUE}
    running: dict[str, int] = {}
    for queue, _, _, count in await store.queue.running():
        running[queue] = running.get(queue, 0) + count
    return [
        QueueState(
            name=name,
            waiting=depths.get(name, {}),
            running=running.get(name, 0),
            control=controls.get(name) or Control(Scope.QUEUE, name),
        )
        for name in sorted({*depths, *running, *controls})
    ]


# -- move job ----------------------------------------------------------------------------------
# Moves a waiting job within its queue, or changes its priority. Both keep the order total, and are audited.


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


# -- steering ----------------------------------------------------------------------------------
# What a plane offers to those who steer it: the gate, pauses, limits, order, direct runs, and why a job waits.


class Steering:
    """Part of Plane."""

    clock: Clock
    store: cached_property[Store]
    directory: cached_property[Directory]
    _ids: NewId

    # -- the gate, pauses, limits ----------------------------------------------------------------

    async def close_gate(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        """Nothing more is claimed, anywhere, until it is opened. Work is still accepted, and lost work still rescued."""
        store = self.store
        return await steer_work.pause(store, Scope.GATE, steer_work.GATE_NAME, actor=actor, reason=reason)

    async def open_gate(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        store = self.store
        return await steer_work.resume(store, Scope.GATE, steer_work.GATE_NAME, actor=actor, reason=reason)

    async def pause(
        self,
        *,
        queue: str | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        """Nothing more of it is claimed; what runs goes on. False when it was paused already."""
        scope, name = await steer_work.named(self.directory, queue, agent, tenant)
        return await steer_work.pause(self.store, scope, name, actor=actor, reason=reason)

    async def unpause(
        self,
        *,
        queue: str | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        scope, name = await steer_work.named(self.directory, queue, agent, tenant)
        return await steer_work.resume(self.store, scope, name, actor=actor, reason=reason)

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
        """At most so many of its jobs run at a time, over all workers; None lifts the limit."""
        scope, name = await steer_work.named(self.directory, queue, agent, tenant)
        return await steer_work.limit(self.store, scope, name, max_running, actor=actor, reason=reason)

    async def share_fairly(self, queue: str, share: bool = True, *, actor: str | None = None) -> bool:
        """The tenants of the queue take turns, however many jobs each has waiting."""
        return await steer_work.share_fairly(self.store, queue, share, actor=actor)

    async def controls(self) -> list[Control]:
        """Everything that is set."""
        return await self.store.controls.list()

    # -- order -----------------------------------------------------------------------------------

    async def move(
        self,
        id_or_prefix: str,
        *,
        before: str | None = None,
        after: str | None = None,
        front: bool = False,
        back: bool = False,
        reason: str | None = None,
        actor: str | None = None,
    ) -> JobId:
        """Moves a waiting job within its queue: `await plane.move(job.id, before=other.id)`."""
        store = self.store
        place, anchor = place_of(before, after, front, back)
        job_id = await find_job_id(store, id_or_prefix)
        anchor_id = None if anchor is None else await find_job_id(store, anchor)
        await move_job(store, job_id, place, anchor_id, actor=actor, reason=reason)
        return job_id

    async def set_priority(
        self, id_or_prefix: str, priority: int, *, reason: str | None = None, actor: str | None = None
    ) -> JobId:
        store = self.store
        job_id = await find_job_id(store, id_or_prefix)
        await set_priority(store, job_id, priority, actor=actor, reason=reason)
        return job_id

    async def why(self, id_or_prefix: str) -> list[Reason]:
        """Why a job is not running: every obstacle that there is."""
        store = self.store
        return await explain_job(store, await find_job(store, id_or_prefix))

    # -- direct runs -----------------------------------------------------------------------------

    async def run_now(
        self,
        agent: str,
        payload: dict[str, Any] | None = None,
        *,
        by: str = "",
        wait: bool = True,
        timeout_seconds: float | None = None,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        **options: Unpack[SubmitOptions],
    ) -> Any:
        """Runs a job ahead of its queue, alone, and answers with its result. The order of the queue stays as it is."""
        check_submit_options("run_now", options, "by", "wait", "timeout_seconds", "ttl_seconds")
        asked: dict[str, Any] = dict(options)
        if asked.pop("connection", None) is not None:
            raise InvalidInput("A job that runs now cannot be part of another transaction.", field="connection")
        job = await checked(self.directory, self._ids, Submission(agent, payload, **asked))
        await check_budgets(self.store, self.directory, [job])
        return await run_now(
            self.store,
            self.clock,
            self._ids,
            job,
            by=by or f"caller {job.id}",
            wait=wait,
            timeout=timeout_seconds,
            ttl_seconds=ttl_seconds,
        )

    async def reservations(self) -> list[Reservation]:
        return await self.store.reservations.list()

    async def release(self, reservation_id: str, *, by: str, reason: str | None = None, force: bool = False) -> None:
        """Only its holder releases a reservation, or an operator by force."""
        store = self.store
        await release(store, ReservationId(reservation_id), by=by, reason=reason, force=force)


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
        raise InvalidInput("Say exactly one of before, after, front and back.", field="place")
    return given[0]
