"""People through a server: who decides, in which groups, and where they are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.bodies import given
from cortex_plane.adapters.remote.pages import read_pages
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.cursors import cursor_for
from cortex_plane.core.errors import Denied
from cortex_plane.core.people import LinkedChannel, User, UserGroup
from cortex_plane.core.tenants import OWN_TENANT
from cortex_plane.people import People

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

PERSON = "user:"


@dataclass(frozen=True, slots=True)
class Me:
    name: str


class RemotePeople(People):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def myself(self) -> str:
        name = (await self._server.get(Me, "me")).name
        if not name.startswith(PERSON):
            raise Denied(
                "This API key belongs to nobody, and an approval is a person's decision. To make one that does: "
                "cortex keys add NAME --user NAME --role approver"
            )
        return name.removeprefix(PERSON)

    async def add(
        self, name: str, *, display_name: str | None = None, email: str | None = None, actor: str | None = None
    ) -> User:
        return await self._server.create(User, "users", body=given(name=name, display_name=display_name, email=email))

    async def get(self, name: str) -> User:
        return await self._server.get(User, "users", name)

    async def disable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        before = await self.get(name)
        await self._server.post(User, "users", name, "disable", body=given(reason=reason))
        return before.disabled_at is None

    async def enable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        before = await self.get(name)
        await self._server.post(User, "users", name, "enable", body=given(reason=reason))
        return before.disabled_at is not None

    # -- where they are reached ------------------------------------------------------------------

    async def link(self, name: str, channel_type: str, address: str, *, actor: str | None = None) -> LinkedChannel:
        body = {"channel_type": channel_type, "address": address}
        return await self._server.create(LinkedChannel, "users", name, "channels", body=body)

    async def unlink(self, name: str, channel_id: str, *, actor: str | None = None) -> None:
        await self._server.delete(NoneType, "users", name, "channels", channel_id)

    async def channels(self, name: str) -> Sequence[LinkedChannel]:
        return await self._server.get(list[LinkedChannel], "users", name, "channels")

    # -- groups ----------------------------------------------------------------------------------

    async def add_group(self, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> UserGroup:
        return await self._server.create(UserGroup, "user-groups", body={"name": name}, tenant=tenant)

    async def groups(self, *, tenant: str = OWN_TENANT) -> Sequence[tuple[UserGroup, Sequence[User]]]:
        found = await self._server.get(list[UserGroup], "user-groups", tenant=tenant)
        return [(group, await self._members(group.name, tenant)) for group in found]

    async def join(self, group: str, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> bool:
        before = await self._members(group, tenant)
        await self._server.put(NoneType, "user-groups", group, "members", name, tenant=tenant)
        return all(user.name != name for user in before)

    async def leave(self, group: str, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> bool:
        before = await self._members(group, tenant)
        await self._server.delete(NoneType, "user-groups", group, "members", name, tenant=tenant)
        return any(user.name == name for user in before)

    async def _members(self, group: str, tenant: str) -> Sequence[User]:
        return await self._server.get(list[User], "user-groups", group, "members", tenant=tenant)

    async def list(self, *, after: str = "", limit: int = 100) -> list[User]:
        cursor = cursor_for("user", after) if after else None
        return await read_pages(self._server, User, "users", limit=limit, cursor=cursor)
