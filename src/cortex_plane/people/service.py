"""People as a program uses them: `plane.people.add("ada")`, then `plane.people.link("ada", "telegram", "42")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.jobs.model import DEFAULT_TENANT, AgentId
from cortex_plane.people.erasing import Erased, erase_person
from cortex_plane.people.model import ChannelId, LinkedChannel, Session, User, UserGroup
from cortex_plane.people.sessions import end_session, find_session, start_session
from cortex_plane.people.users import (
    add_user,
    add_user_group,
    change_owner,
    disable_user,
    enable_user,
    find_user,
    join_user_group,
    leave_user_group,
    link_channel,
    list_user_groups,
    list_users,
    unlink_channel,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cortex_plane.plane import Plane


class PeopleService:
    """Who decides, in which groups, and where they are reached. Passwords and roles are in `plane.access`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self,
        name: str,
        *,
        display_name: str | None = None,
        email: str | None = None,
        owner: str | None = None,
        actor: str | None = None,
    ) -> User:
        """With an owner, who must be an admin, it is a service account: programs act as it by its keys; it decides nothing."""
        store, ids = self._plane.store, self._plane._ids
        return await add_user(store, ids, name, display_name=display_name, email=email, owner=owner, actor=actor)

    async def change_owner(self, name: str, owner: str, *, actor: str | None = None) -> User:
        """Gives a service account to another admin."""
        return await change_owner(self._plane.store, name, owner, actor=actor)

    async def myself(self) -> str | None:
        """Who asks, by name, where that is proved: through a server. Whoever may use the database says it themselves."""
        return None

    async def get(self, name: str) -> User:
        return await find_user(self._plane.store, name)

    async def list(self, *, after: str = "", limit: int = 100) -> list[User]:
        """By name; `after` is the last name of the page before."""
        return await list_users(self._plane.store, after=after, limit=limit)

    async def disable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """From now on they may do nothing. Their keys, sign-ins, sessions, event streams and the links that were sent to them
        end, and do not come back when they are enabled. False when that was so already."""
        return await disable_user(self._plane.store, name, actor=actor, reason=reason)

    async def enable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        return await enable_user(self._plane.store, name, actor=actor, reason=reason)

    async def erase(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Erased:
        """Removes what is stored about them: account, addresses, keys, the ended jobs that they submitted, and their name
        everywhere else. The audit log keeps a pseudonym, and its seals still verify. It cannot be undone."""
        return await erase_person(self._plane.store, name, actor=actor, reason=reason)

    # -- where they are reached ------------------------------------------------------------------

    async def link(self, name: str, channel_type: str, address: str, *, actor: str | None = None) -> LinkedChannel:
        """`address` is what the service knows them by: a Telegram chat, a Discord or Slack user, an e-mail address, the
        id of a webhook, or whatever a channel of `Plane(channels=…)` takes."""
        store, registered = self._plane.store, self._plane.channels
        return await link_channel(store, self._plane._ids, name, channel_type, address, registered=registered, actor=actor)

    async def unlink(self, name: str, channel_id: str, *, actor: str | None = None) -> None:
        await unlink_channel(self._plane.store, name, ChannelId(channel_id), actor=actor)

    async def channels(self, name: str) -> Sequence[LinkedChannel]:
        store = self._plane.store
        return await store.people.channels((await find_user(store, name)).id)

    # -- groups ----------------------------------------------------------------------------------

    async def add_group(self, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> UserGroup:
        tenant_id = await self._plane.directory.tenant(tenant)
        return await add_user_group(self._plane.store, self._plane._ids, tenant_id, name, actor=actor)

    async def groups(self, *, tenant: str = DEFAULT_TENANT) -> Sequence[tuple[UserGroup, Sequence[User]]]:
        """By name, with their members."""
        return await list_user_groups(self._plane.store, await self._plane.directory.tenant(tenant))

    async def join(self, group: str, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> bool:
        """False when they are in it already."""
        return await join_user_group(self._plane.store, await self._plane.directory.tenant(tenant), group, name, actor=actor)

    async def leave(self, group: str, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> bool:
        return await leave_user_group(self._plane.store, await self._plane.directory.tenant(tenant), group, name, actor=actor)

    # -- conversations ---------------------------------------------------------------------------

    async def start_session(
        self, name: str, *, agent: str | None = None, channel: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> Session:
        """A conversation that starts jobs: submit with `session=session.id`, and its user is asked where a gate names
        nobody."""
        agent_id = None if agent is None else AgentId((await self._plane.directory.agent(agent)).id)
        tenant_id = await self._plane.directory.tenant(tenant)
        return await start_session(
            self._plane.store, self._plane._ids, name, tenant_id=tenant_id, agent_id=agent_id, channel=channel
        )

    async def session(self, session_id: str) -> Session:
        return await find_session(self._plane.store, session_id)

    async def sessions(self, name: str | None = None, *, tenant: str = DEFAULT_TENANT, limit: int = 50) -> Sequence[Session]:
        """Newest first; of one person, or of all."""
        user_id = None if name is None else (await find_user(self._plane.store, name)).id
        return await self._plane.store.people.list_sessions(await self._plane.directory.tenant(tenant), user_id, limit=limit)

    async def end_session(self, session_id: str) -> Session:
        """No job is submitted from it any more, and its user is not asked by default."""
        return await end_session(self._plane.store, session_id)
