"""The gate, pauses, limits, order and reservations through a server."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from cortex_plane.people.model import TenantOverview
from cortex_plane.queues.model import Control, QueueState, Reservation, Scope
from cortex_plane.queues.service import GateService, QueueService
from cortex_plane.remote import Server, given

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


class QueueClient(QueueService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._server = client.server

    async def pause(
        self,
        queue: str | None = None,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        scope, path = _named(queue, agent, tenant)
        return await _switch(self._server, scope, path[1], (*path, "pause"), reason, paused=True)

    async def resume(
        self,
        queue: str | None = None,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        scope, path = _named(queue, agent, tenant)
        return await _switch(self._server, scope, path[1], (*path, "resume"), reason, paused=False)

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
        before = await _control(self._server, scope, path[1])
        await self._server.put(dict[str, Any], *path, "limit", body={"max_running": max_running, **given(reason=reason)})
        return before.max_running != max_running

    async def share_fairly(self, queue: str, share: bool = True, *, actor: str | None = None) -> bool:
        before = await _control(self._server, Scope.QUEUE, queue)
        after = await self._server.put(Control, "queues", queue, "share", body={"fair_share": share})
        return before.fair_share is not after.fair_share

    async def controls(self) -> list[Control]:
        return await self._server.get(list[Control], "controls")

    async def reservations(self) -> list[Reservation]:
        return await self._server.get(list[Reservation], "reservations")

    async def release(self, reservation_id: str, *, by: str, reason: str | None = None, force: bool = False) -> None:
        """Always by force: the holder is another program."""
        await self._server.post(NoneType, "reservations", reservation_id, "release", body=given(reason=reason))

    async def list(self) -> list[QueueState]:
        return await self._server.get(list[QueueState], "queues")


class GateClient(GateService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._server = client.server

    async def close(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        return await _switch(self._server, Scope.GATE, "", ("gate", "close"), reason, paused=True)

    async def open(self, reason: str | None = None, *, actor: str | None = None) -> bool:
        return await _switch(self._server, Scope.GATE, "", ("gate", "open"), reason, paused=False)


async def _switch(server: Server, scope: Scope, name: str, path: tuple[str, ...], reason: str | None, *, paused: bool) -> bool:
    """Returns whether the state changed, by comparing it with the state before the call."""
    before = await _control(server, scope, name)
    await server.post(dict[str, Any], *path, body=given(reason=reason))
    return before.paused is not paused


async def _control(server: Server, scope: Scope, name: str) -> Control:
    if scope is Scope.TENANT:
        return (await server.get(TenantOverview, "tenants", name)).control
    set_for = {(control.scope, control.name): control for control in await server.get(list[Control], "controls")}
    return set_for.get((scope, name)) or Control(scope, name)


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

            raise InvalidInput("Give exactly one of queue, agent and tenant.", field="queue")
