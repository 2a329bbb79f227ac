"""Stores users, user groups, channel addresses, sessions and tenants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cortex_plane.approvals.rows import user
from cortex_plane.jobs.model import TenantId
from cortex_plane.json import dumps
from cortex_plane.people.model import ChannelId, LinkedChannel, Session, SessionId, Tenant, User, UserGroup, UserGroupId, UserId
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NEWER_THAN_ALL
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Database, Row


class PeopleStore:
    """Changes are recorded with their audit entry; what changes nothing is not recorded, and answered with False."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_user(self, user: User, entry: AuditEntry) -> bool:
        """False when the name is taken."""
        values = {"id": user.id, "name": user.name, "display_name": user.display_name, "email": user.email}
        return await self._change("people/add_user", entry, owner_id=user.owner_id, **values)

    async def get_user(self, user_id: UserId) -> User | None:
        return _first_user(await self._database.read("people/get_user", id=user_id))

    async def find_user(self, name: str) -> User | None:
        return _first_user(await self._database.read("people/find_user", name=name))

    async def list_users(self, *, after: str = "", limit: int = 100) -> list[User]:
        """By name; `after` is the last name of the page before."""
        return [user(row) for row in await self._database.read("people/list_users", after=after, limit=limit)]

    async def disable_user(self, user_id: UserId, entry: AuditEntry) -> bool:
        """From now on the account may do nothing. Its keys, sign-ins, sessions and tokens of approvals end for good."""
        return await self._database.transact(lambda: _disable(user_id, entry))

    async def enable_user(self, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/enable_user", entry, id=user_id)

    async def change_owner(self, user_id: UserId, owner_id: UserId, entry: AuditEntry) -> bool:
        """Of a service account."""
        return await self._change("people/change_owner", entry, id=user_id, owner_id=owner_id)

    async def add_group(self, group: UserGroup, entry: AuditEntry) -> bool:
        """False when the tenant has a group of that name."""
        return await self._change("people/add_group", entry, id=group.id, tenant_id=group.tenant_id, name=group.name)

    async def find_group(self, tenant_id: TenantId, name: str) -> UserGroup | None:
        for row in await self._database.read("people/find_group", tenant_id=tenant_id, name=name):
            return _group(row)
        return None

    async def list_groups(self, tenant_id: TenantId) -> list[UserGroup]:
        """By name."""
        return [_group(row) for row in await self._database.read("people/list_groups", tenant_id=tenant_id)]

    async def remove_group(self, group_id: UserGroupId, entry: AuditEntry) -> bool:
        return await self._change("people/remove_group", entry, id=group_id)

    async def add_member(self, group_id: UserGroupId, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/add_member", entry, group_id=group_id, user_id=user_id)

    async def remove_member(self, group_id: UserGroupId, user_id: UserId, entry: AuditEntry) -> bool:
        return await self._change("people/remove_member", entry, group_id=group_id, user_id=user_id)

    async def members(self, group_id: UserGroupId) -> list[User]:
        """By name."""
        return [user(row) for row in await self._database.read("people/members", group_id=group_id)]

    async def groups_of(self, user_id: UserId) -> frozenset[UserGroupId]:
        found = await self._database.read("people/groups_of", user_id=user_id)
        return frozenset(UserGroupId(str(row["group_id"])) for row in found)

    async def link_channel(self, channel: LinkedChannel, entry: AuditEntry) -> bool:
        """False when somebody has that address already."""
        return await self._change(
            "people/link_channel",
            entry,
            id=channel.id,
            user_id=channel.user_account_id,
            channel_type=channel.channel_type,
            channel_user_id=channel.channel_user_id,
        )

    async def unlink_channel(self, channel_id: ChannelId, entry: AuditEntry) -> bool:
        """The tokens of approvals that were sent there open nothing any more."""
        return await self._database.transact(lambda: _unlink(channel_id, entry))

    async def channels(self, user_id: UserId) -> list[LinkedChannel]:
        return [_channel(row) for row in await self._database.read("people/channels", user_id=user_id)]

    async def find_by_channel(self, channel_type: str, channel_user_id: str) -> User | None:
        """Whose address this is."""
        values = {"channel_type": channel_type, "channel_user_id": channel_user_id}
        return _first_user(await self._database.read("people/find_by_channel", **values))

    async def add_session(self, session: Session) -> None:
        """The same one a second time changes nothing."""
        await self._database.write(
            "people/add_session",
            id=session.id,
            tenant_id=session.tenant_id,
            user_id=session.user_account_id,
            agent_id=session.agent_id,
            channel=session.channel,
        )

    async def get_session(self, session_id: SessionId) -> Session | None:
        for row in await self._database.read("people/get_session", id=session_id):
            return _session(row)
        return None

    async def list_sessions(
        self, tenant_id: TenantId, user_id: UserId | None = None, *, before: SessionId | None = None, limit: int = 50
    ) -> list[Session]:
        """Newest first; those of one person, or of all."""
        values = {"tenant_id": tenant_id, "user_id": user_id, "before": before or NEWER_THAN_ALL, "limit": limit}
        return [_session(row) for row in await self._database.read("people/list_sessions", **values)]

    async def end_session(self, session_id: SessionId) -> bool:
        """False when it had ended."""
        return bool(await self._database.write("people/end_session", id=session_id))

    async def _change(self, statement: str, entry: AuditEntry, **values: Any) -> bool:
        return await self._database.transact(lambda: _changed(statement, entry, values))


def _changed(statement: str, entry: AuditEntry, values: dict[str, Any]) -> Transaction[bool]:
    """What changed nothing is not recorded."""
    if not (yield from query(statement, **values)):
        return False
    yield from _record(entry)
    return True


def _disable(user_id: UserId, entry: AuditEntry) -> Transaction[bool]:
    """Ends, for good, all by which this person could act: enabling the account again brings none of it back."""
    if not (yield from query("people/disable_user", id=user_id)):
        return False
    ended = {
        "sign_ins": len((yield from query("people/end_sign_ins", id=user_id))),
        "keys": len((yield from query("people/revoke_keys", id=user_id))),
        "sessions": len((yield from query("people/end_sessions", id=user_id))),
        "approval_tokens": (yield from _void_tokens(user_id)),
    }
    yield from _record(replace(entry, details={**entry.details, **ended}))
    return True


def _unlink(channel_id: ChannelId, entry: AuditEntry) -> Transaction[bool]:
    """What was sent to the address opens nothing any more."""
    found = yield from query("people/unlink_channel", id=channel_id)
    if not found:
        return False
    was = _channel(found[0])
    voided = yield from _void_tokens(was.user_account_id, was.channel_type, was.channel_user_id)
    yield from _record(replace(entry, details={**entry.details, "approval_tokens": voided}))
    return True


def _void_tokens(user_id: UserId, channel_type: str | None = None, channel_user_id: str | None = None) -> Transaction[int]:
    """Returns how many were good until now."""
    found = yield from query("people/void_tokens", id=user_id, channel_type=channel_type, channel_user_id=channel_user_id)
    return sum(row["replaced_at"] is None for row in found)


def _record(entry: AuditEntry) -> Transaction[None]:
    yield from query("audit/record", entries=dumps([entry.to_json()]))


def _first_user(found: Any) -> User | None:
    return user(found[0]) if found else None


def _group(row: Row) -> UserGroup:
    tenant_id = TenantId(str(row["tenant_id"]))
    return UserGroup(UserGroupId(str(row["id"])), tenant_id, row["name"], rows.moment(row["created_at"]))


def _session(row: Row) -> Session:
    return Session(
        id=SessionId(str(row["id"])),
        user_account_id=UserId(str(row["user_account_id"])),
        agent_id=rows.text_or_none(row["agent_id"]),
        channel=row["channel"],
        created_at=rows.moment(row["created_at"]),
        tenant_id=TenantId(str(row["tenant_id"])),
        ended_at=rows.moment_or_none(row["ended_at"]),
    )


def _channel(row: Row) -> LinkedChannel:
    return LinkedChannel(
        id=ChannelId(str(row["id"])),
        user_account_id=UserId(str(row["user_account_id"])),
        channel_type=row["channel_type"],
        channel_user_id=row["channel_user_id"],
        created_at=rows.moment(row["created_at"]),
    )


class TenantStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, name: str) -> TenantId | None:
        found = await self._database.read("tenants/find", name=name)
        return TenantId(str(found[0]["id"])) if found else None

    async def add(self, tenant_id: TenantId, name: str, entry: AuditEntry | None = None) -> None:
        """A name that is taken is left alone, and nothing is recorded."""
        await self._database.transact(lambda: _add_tenant(tenant_id, name, entry))

    async def list(self) -> list[Tenant]:
        """By name."""
        found = await self._database.read("tenants/list")
        return [Tenant(TenantId(str(row["id"])), row["name"], rows.moment(row["created_at"])) for row in found]

    async def count_jobs(self, tenant_id: TenantId) -> tuple[int, dict[str, int]]:
        """How many run; and how many wait, by state of their queue entries."""
        [running] = await self._database.read("tenants/count_running", tenant_id=tenant_id)
        waiting = await self._database.read("tenants/count_waiting", tenant_id=tenant_id)
        return running["jobs"], {row["state"]: row["jobs"] for row in waiting}


def _add_tenant(tenant_id: TenantId, name: str, entry: AuditEntry | None) -> Transaction[None]:
    added = yield from query("tenants/add", id=tenant_id, name=name)
    if added and entry is not None:
        yield from query("audit/record", entries=dumps([entry.to_json()]))
