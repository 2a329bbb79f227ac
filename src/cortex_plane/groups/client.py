"""Groups through a server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from cortex_plane.cursors import cursor_for
from cortex_plane.errors import InvalidInput
from cortex_plane.groups.model import LARGEST_GROUP, Group, GroupId, GroupMode, GroupNotFinished, Member, OnFailure
from cortex_plane.groups.service import GroupHandle, GroupService
from cortex_plane.jobs.client import one_tenant
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.model import JobId
from cortex_plane.people.model import OWN_TENANT
from cortex_plane.remote import given, read_pages, submission_body, whole_id

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Submitted:
    id: GroupId
    jobs: list[JobId]


@dataclass(frozen=True, slots=True)
class Cancelled:
    cancelled: int


class GroupClient(GroupService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def submit(
        self,
        members: Iterable[Submission],
        *,
        mode: GroupMode = "parallel",
        on_failure: OnFailure = "stop",
        callback: Submission | None = None,
        name: str | None = None,
        key: str | None = None,
        created_by: str | None = None,
        connection: Any = None,
    ) -> GroupHandle:
        if connection is not None:
            raise InvalidInput("A server cannot take part in a transaction of yours.", field="connection")
        asked = list(members)
        tenant = one_tenant(asked if callback is None else [*asked, callback])
        body = {
            "members": [submission_body(one) for one in asked],
            **given(mode=mode, on_failure=on_failure, name=name, key=key),
            **({} if callback is None else {"callback": submission_body(callback)}),
        }
        made = await self._server.create(Submitted, "groups", body=body, tenant=tenant)
        return GroupHandle(self._client, made.id, made.jobs)

    async def get(self, id_or_prefix: str) -> Group:
        return await self._server.get(Group, "groups", await self._id(id_or_prefix))

    async def members(self, id_or_prefix: str, *, limit: int = LARGEST_GROUP) -> list[Member]:
        return await self._server.get(list[Member], "groups", await self._id(id_or_prefix), "members", limit=limit)

    async def wait(self, id_or_prefix: str, *, timeout: float | None = None) -> Group:
        clock = self._client.clock
        until = None if timeout is None else clock.elapsed() + timeout
        while not (group := await self.get(id_or_prefix)).is_finished:
            if until is not None and clock.elapsed() + LOOK_SECONDS > until:
                raise GroupNotFinished(group.id, group.status, group.tally.ended, group.tally.members, timeout or 0.0)
            await clock.sleep(LOOK_SECONDS)
        return group

    async def cancel(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> int:
        group_id = await self._id(id_or_prefix)
        return (await self._server.post(Cancelled, "groups", group_id, "cancel", body=given(reason=reason))).cancelled

    async def list(self, *, tenant: str = OWN_TENANT, before: str | None = None, limit: int = 50) -> list[Group]:
        cursor = None if before is None else cursor_for("group", await self._id(before))
        return await read_pages(self._server, Group, "groups", limit=limit, cursor=cursor, tenant=tenant)

    async def _id(self, id_or_prefix: str) -> str:
        return await whole_id(self._server, "group", id_or_prefix)
