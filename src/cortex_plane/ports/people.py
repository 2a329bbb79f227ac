"""What we need of a database for people: accounts, groups, addresses, and the conversations that start jobs."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import ChannelId, LinkedChannel, Session, SessionId, User, UserGroup, UserGroupId, UserId


class People(Protocol):
    """Changes are recorded with their audit entry; what changes nothing is not recorded, and answered with False."""

    async def add_user(self, user: User, entry: AuditEntry) -> bool:
        """False when the name is taken."""

    async def get_user(self, user_id: UserId) -> User | None: ...

    async def find_user(self, name: str) -> User | None: ...

    async def list_users(self, *, after: str = "", limit: int = 100) -> list[User]:
        """By name; `after` is the last name of the page before."""

    async def disable_user(self, user_id: UserId, entry: AuditEntry) -> bool:
        """From now on the account may do nothing."""

    async def enable_user(self, user_id: UserId, entry: AuditEntry) -> bool: ...

    async def add_group(self, group: UserGroup, entry: AuditEntry) -> bool:
        """False when the tenant has a group of that name."""

    async def find_group(self, tenant_id: TenantId, name: str) -> UserGroup | None: ...

    async def list_groups(self, tenant_id: TenantId) -> list[UserGroup]:
        """By name."""

    async def remove_group(self, group_id: UserGroupId, entry: AuditEntry) -> bool: ...

    async def add_member(self, group_id: UserGroupId, user_id: UserId, entry: AuditEntry) -> bool: ...

    async def remove_member(self, group_id: UserGroupId, user_id: UserId, entry: AuditEntry) -> bool: ...

    async def members(self, group_id: UserGroupId) -> list[User]:
        """By name."""

    async def groups_of(self, user_id: UserId) -> frozenset[UserGroupId]: ...

    async def link_channel(self, channel: LinkedChannel, entry: AuditEntry) -> bool:
        """False when somebody has that address already."""

    async def unlink_channel(self, channel_id: ChannelId, entry: AuditEntry) -> bool: ...

    async def channels(self, user_id: UserId) -> list[LinkedChannel]: ...

    async def find_by_channel(self, channel_type: str, channel_user_id: str) -> User | None:
        """Whose address this is."""

    async def add_session(self, session: Session) -> None:
        """The same one a second time changes nothing."""

    async def get_session(self, session_id: SessionId) -> Session | None: ...
