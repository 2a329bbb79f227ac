"""People as a program uses them: `plane.people.add("ada")`, then `plane.people.link("ada", "telegram", "42")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.core.jobs import DEFAULT_TENANT, AgentId
from cortex_plane.core.people import ChannelId, LinkedChannel, Session, User, UserGroup
from cortex_plane.operations.add_user import add_user
from cortex_plane.operations.add_user_group import add_user_group
from cortex_plane.operations.find_user import find_user
from cortex_plane.operations.join_user_group import join_user_group, leave_user_group
from cortex_plane.operations.link_channel import link_channel, unlink_channel
from cortex_plane.operations.list_user_groups import list_user_groups
from cortex_plane.operations.list_users import list_users
from cortex_plane.operations.start_session import start_session
from cortex_plane.operations.switch_user import disable_user, enable_user

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cortex_plane.plane import Plane


class People:
    """Who decides, in which groups, and where they are reached. Passwords and roles are in `plane.access`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self, name: str, *, display_name: str | None = None, email: str | None = None, actor: str | None = None
    ) -> User:
        store = await self._plane.store
        return await add_user(store, self._plane._ids, name, display_name=display_name, email=email, actor=actor)

    async def myself(self) -> str | None:
        """Who asks, by name, where that is proved: through a server. Whoever may use the database says it themselves."""
        return None

    async def get(self, name: str) -> User:
        return await find_user(await self._plane.store, name)

    async def list(self, *, after: str = "", limit: int = 100) -> list[User]:
        """By name; `after` is the last name of the page before."""
        return await list_users(await self._plane.store, after=after, limit=limit)

    async def disable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """From now on they may do nothing. False when that was so already."""
        return await disable_user(await self._plane.store, name, actor=actor, reason=reason)

    async def enable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        return await enable_user(await self._plane.store, name, actor=actor, reason=reason)

    # -- where they are reached ------------------------------------------------------------------

    async def link(self, name: str, channel_type: str, address: str, *, actor: str | None = None) -> LinkedChannel:
        """`address` is what the service knows them by: a Telegram chat, a Discord or Slack user, an e-mail address, or the
        id of a webhook."""
        return await link_channel(await self._plane.store, self._plane._ids, name, channel_type, address, actor=actor)

    async def unlink(self, name: str, channel_id: str, *, actor: str | None = None) -> None:
        await unlink_channel(await self._plane.store, name, ChannelId(channel_id), actor=actor)

    async def channels(self, name: str) -> Sequence[LinkedChannel]:
        store = await self._plane.store
        return await store.people.channels((await find_user(store, name)).id)

    # -- groups ----------------------------------------------------------------------------------

    async def add_group(self, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> UserGroup:
        opened = await self._plane._open_here()
        tenant_id = await opened.directory.tenant(tenant)
        return await add_user_group(opened.store, self._plane._ids, tenant_id, name, actor=actor)

    async def groups(self, *, tenant: str = DEFAULT_TENANT) -> Sequence[tuple[UserGroup, Sequence[User]]]:
        """By name, with their members."""
        opened = await self._plane._open_here()
        return await list_user_groups(opened.store, await opened.directory.tenant(tenant))

    async def join(self, group: str, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> bool:
        """False when they are in it already."""
        opened = await self._plane._open_here()
        return await join_user_group(opened.store, await opened.directory.tenant(tenant), group, name, actor=actor)

    async def leave(self, group: str, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> bool:
        opened = await self._plane._open_here()
        return await leave_user_group(opened.store, await opened.directory.tenant(tenant), group, name, actor=actor)

    # -- conversations ---------------------------------------------------------------------------

    async def start_session(self, name: str, *, agent: str | None = None, channel: str | None = None) -> Session:
        """A conversation that starts jobs: submit with `session=session.id`, and its user is asked where a gate names
        nobody."""
        opened = await self._plane._open_here()
        agent_id = None if agent is None else AgentId((await opened.directory.agent(agent)).id)
        return await start_session(opened.store, self._plane._ids, name, agent_id=agent_id, channel=channel)
