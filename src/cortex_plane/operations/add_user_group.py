"""Adds a group of people who may be asked together."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import UserGroup, UserGroupExists, UserGroupId, checked_name
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def add_user_group(store: Store, new_id: NewId, tenant_id: TenantId, name: str, *, actor: str | None = None) -> UserGroup:
    group = UserGroup(UserGroupId(new_id()), tenant_id, checked_name(name))
    entry = AuditEntry("USER_GROUP_ADDED", "user_group", group.id, actor, tenant_id=tenant_id, details={"name": name})
    await store.people.add_group(group, entry)
    found = await store.people.find_group(tenant_id, name)
    if found is None or found.id != group.id:
        raise UserGroupExists(name)
    return found
