"""Lists the groups of people that a tenant has, with who is in them."""

from __future__ import annotations

from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import User, UserGroup
from cortex_plane.ports.store import Store


async def list_user_groups(store: Store, tenant_id: TenantId) -> list[tuple[UserGroup, list[User]]]:
    return [(group, await store.people.members(group.id)) for group in await store.people.list_groups(tenant_id)]
