"""People, their groups and addresses. Each change is one transaction, with its audit entry."""

from __future__ import annotations

from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.approval_rows import user
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import ChannelId, LinkedChannel, Session, SessionId, User, UserGroup, UserGroupId, UserId
from cortex_plane.ports.json_text import dumps


class SqlPeople:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_user(self, user: User, entry: AuditEntry) -> bool:
        values = {"id": user.id, "name": user.name, "display_name": user.display_name, "email": user.email}
        return await self._change("people/add_user", entry, **values)

    async def get_user(self, user_id: UserId) -> User | None:
        return _first_user(await self._database.read("people/get_user", id=user_id))

    async def find_user(self, name: str) -> User | None:
        return _first_user(await self._database.read("people/find_user", name=name))

    async def list_users(self, *, after: str = "", limit: int = 100) -> list[User]:
        return [user(row) for row in await self._database.read("people/list_users", after=after, limit=limit)]

    async def disable_user(self, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/disable_user", entry, id=user_id)

    async def enable_user(self, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/enable_user", entry, id=user_id)

    async def add_group(self, group: UserGroup, entry: AuditEntry) -> bool:
        return await self._change("people/add_group", entry, id=group.id, tenant_id=group.tenant_id, name=group.name)

    async def find_group(self, tenant_id: TenantId, name: str) -> UserGroup | None:
        for row in await self._database.read("people/find_group", tenant_id=tenant_id, name=name):
            return _group(row)
        return None

    async def list_groups(self, tenant_id: TenantId) -> list[UserGroup]:
        return [_group(row) for row in await self._database.read("people/list_groups", tenant_id=tenant_id)]

    async def remove_group(self, group_id: UserGroupId, entry: AuditEntry) -> bool:
        return await self._change("people/remove_group", entry, id=group_id)

    async def add_member(self, group_id: UserGroupId, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/add_member", entry, group_id=group_id, user_id=user_id)

    async def remove_member(self, group_id: UserGroupId, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/remove_member", entry, group_id=group_id, user_id=user_id)

    async def members(self, group_id: UserGroupId) -> list[User]:
        return [user(row) for row in await self._database.read("people/members", group_id=group_id)]

    async def groups_of(self, user_id: UserId) -> frozenset[UserGroupId]:
        found = await self._database.read("people/groups_of", user_id=user_id)
        return frozenset(UserGroupId(str(row["group_id"])) for row in found)

    async def link_channel(self, channel: LinkedChannel, entry: AuditEntry) -> bool:
        return await self._change(
            "people/link_channel",
            entry,
            id=channel.id,
            user_id=channel.user_account_id,
            channel_type=channel.channel_type,
            channel_user_id=channel.channel_user_id,
        )

    async def unlink_channel(self, channel_id: ChannelId, entry: AuditEntry) -> bool:
        return await self._change("people/unlink_channel", entry, id=channel_id)

    async def channels(self, user_id: UserId) -> list[LinkedChannel]:
        return [_channel(row) for row in await self._database.read("people/channels", user_id=user_id)]

    async def find_by_channel(self, channel_type: str, channel_user_id: str) -> User | None:
        values = {"channel_type": channel_type, "channel_user_id": channel_user_id}
        return _first_user(await self._database.read("people/find_by_channel", **values))

    async def add_session(self, session: Session) -> None:
        await self._database.write(
            "people/add_session",
            id=session.id,
            user_id=session.user_account_id,
            agent_id=session.agent_id,
            channel=session.channel,
        )

    async def get_session(self, session_id: SessionId) -> Session | None:
        for row in await self._database.read("people/get_session", id=session_id):
            return Session(
                id=SessionId(str(row["id"])),
                user_account_id=UserId(str(row["user_account_id"])),
                agent_id=rows.text_or_none(row["agent_id"]),
                channel=row["channel"],
                created_at=rows.moment(row["created_at"]),
            )
        return None

    async def _change(self, statement: str, entry: AuditEntry, **values: Any) -> bool:
        return await self._database.transact(lambda: _changed(statement, entry, values))


def _changed(statement: str, entry: AuditEntry, values: dict[str, Any]) -> Script[bool]:
    """What changed nothing is not recorded."""
    if not (yield from ask(statement, **values)):
        return False
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
    return True


def _first_user(found: Any) -> User | None:
    return user(found[0]) if found else None


def _group(row: Row) -> UserGroup:
    tenant_id = TenantId(str(row["tenant_id"]))
    return UserGroup(UserGroupId(str(row["id"])), tenant_id, row["name"], rows.moment(row["created_at"]))


def _channel(row: Row) -> LinkedChannel:
    return LinkedChannel(
        id=ChannelId(str(row["id"])),
        user_account_id=UserId(str(row["user_account_id"])),
        channel_type=row["channel_type"],
        channel_user_id=row["channel_user_id"],
        created_at=rows.moment(row["created_at"]),
    )
