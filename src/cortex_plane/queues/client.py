"""The gate, pauses, limits, order and reservations through a server."""

from __future__ import annotations

from types import NoneType
from typing import Any

from cortex_plane.jobs.model import Job, JobId
from cortex_plane.people.model import TenantOverview
from cortex_plane.queues.model import Control, Reservation, Scope
from cortex_plane.queues.service import Steering, place_of
from cortex_plane.queues.why import Reason
from cortex_plane.remote import Server, given


class RemoteSteering(Steering):
    """Part of RemotePlane."""

    server: Server

    async def find(self, id_or_prefix: str) -> JobId:
        """RemoteJobs' own."""
        raise AssertionError

    # -- the gate, pauses, limits ----------------------------------------------------------------

    async def close_gate(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        return await self._switch(Scope.GATE, "", ("gate", "close"), reason, paused=True)

    async def open_gate(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        return await self._switch(Scope.GATE, "", ("gate", "open"), reason, paused=False)

    async def pause(
        self,
        *,
        queue: str | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        scope, path = _named(queue, agent, tenant)
        return await self._switch(scope, path[1], (*path, "pause"), reason, paused=True)

    async def unpause(
        self,
        *,
        queue: str | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        scope, path = _named(queue, agent, tenant)
        return await self._switch(scope, path[1], (*path, "resume"), reason, paused=False)

    async def _switch(self, scope: Scope, name: str, path: tuple[str, ...], reason: str | None, *, paused: bool) -> bool:
        """Whether it was otherwise a moment ago; the API tells how it is now."""
        before = await self._control(scope, name)
        await self.server.post(dict[str, Any], *path, body=given(reason=reason))
        return before.paused is not paused

    async def _control(self, scope: Scope, name: str) -> Control:
        if scope is Scope.TENANT:
            return (await self.server.get(TenantOverview, "tenants", name)).control
        set_for = {(control.scope, control.name): control for control in await self.controls()}
        return set_for.get((scope, name)) or Control(scope, name)

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
        scope, path = _named(queue, agent, tenant)
        before = await self._control(scope, path[1])
        await self.server.put(dict[str, Any], *path, "limit", body={"max_running": max_running, **given(reason=reason)})
        return before.max_running != max_running

    async def share_fairly(self, queue: str, share: bool = True, *, actor: str | None = None) -> bool:
        before = await self._control(Scope.QUEUE, queue)
        after = await self.server.put(Control, "queues", queue, "share", body={"fair_share": share})
        return before.fair_share is not after.fair_share

    async def controls(self) -> list[Control]:
        return await self.server.get(list[Control], "controls")

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
        place, anchor = place_of(before, after, front, back)
        job_id = await self.find(id_or_prefix)
        anchor_id = None if anchor is None else await self.find(anchor)
        body = {"place": place.value, **given(anchor=anchor_id, reason=reason)}
        return (await self.server.post(Job, "jobs", job_id, "move", body=body)).id

    async def set_priority(
        self, id_or_prefix: str, priority: int, *, reason: str | None = None, actor: str | None = None
    ) -> JobId:
        job_id = await self.find(id_or_prefix)
        body = {"priority": priority, **given(reason=reason)}
        return (await self.server.put(Job, "jobs", job_id, "priority", body=body)).id

    async def why(self, id_or_prefix: str) -> list[Reason]:
        return await self.server.get(list[Reason], "jobs", await self.find(id_or_prefix), "why")

    # -- direct runs -----------------------------------------------------------------------------

    async def reservations(self) -> list[Reservation]:
        return await self.server.get(list[Reservation], "reservations")

    async def release(self, reservation_id: str, *, by: str, reason: str | None = None, force: bool = False) -> None:
        """By force: whoever holds it is a program elsewhere."""
        await self.server.post(NoneType, "reservations", reservation_id, "release", body=given(reason=reason))


def _named(queue: str | None, agent: str | None, tenant: str | None) -> tuple[Scope, tuple[str, str]]:
    match queue, agent, tenant:
        case str(name), None, None:
            return Scope.QUEUE, ("queues", name)
        case None, str(name), None:
            return Scope.AGENT, ("agents", name)
        case None, None, str(name):
            return Scope.TENANT, ("tenants", name)
        case _:
            from cortex_plane.errors import InvalidInput

            raise InvalidInput("Say exactly one of queue, agent and tenant.", field="queue")
