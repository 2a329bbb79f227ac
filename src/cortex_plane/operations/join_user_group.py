"""Puts somebody into a group of people, or takes them out again."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import User, UserGroup, UserGroupNotFound
from cortex_plane.operations.find_user import find_user
from cortex_plane.ports.store import Store


async def join_user_group(store: Store, tenant_id: TenantId, group: str, name: str, *, actor: str | None = None) -> bool:
    """False when they are in it already."""
    found, user = await _both(store, tenant_id, group, name)
    return await store.people.add_member(found.id, user.id, _entry("USER_GROUP_JOINED", found, user, actor))


async def leave_user_group(store: Store, tenant_id: TenantId, group: str, name: str, *, actor: str | None = None) -> bool:
    found, user = await _both(store, tenant_id, group, name)
    return await store.people.remove_member(found.id, user.id, _entry("USER_GROUP_LEFT", found, user, actor))


async def _both(store: Store, tenant_id: TenantId, group: str, name: str) -> tuple[UserGroup, User]:
    found = await store.people.find_group(tenant_id, group)
    if found is None:
        raise UserGroupNotFound(group)
    return found, await find_user(store, name)


def _entry(action: str, group: UserGroup, user: User, actor: str | None) -> AuditEntry:
    details = {"group": group.name, "user": user.name}
    return AuditEntry(action, "user_group", group.id, actor, tenant_id=group.tenant_id, details=details)
