"""Finds the people and groups that a gate names."""

from __future__ import annotations

from cortex_plane.core.approvals import NOBODY, Approvers
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.gates import Names
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import UserGroupId, UserId
from cortex_plane.ports.people import People

GROUP = "group:"


async def find_approvers(people: People, tenant_id: TenantId, names: Names | None, field: str = "approvers") -> Approvers:
    """Raises InvalidInput for a name that nobody has: otherwise the request would wait for nobody."""
    if names is None:
        return NOBODY
    asked = [names] if isinstance(names, str) else list(names)
    if not asked:
        raise InvalidInput(f"{field} is empty, so nobody could decide. Leave it out, or name somebody.", field=field)
    users: list[UserId] = []
    groups: list[UserGroupId] = []
    for name in asked:
        if not isinstance(name, str):
            raise InvalidInput(f"{field} takes names of users, and groups as group:NAME, not {name!r:.80}.", field=field)
        if name.startswith(GROUP):
            groups.append(await _group(people, tenant_id, name.removeprefix(GROUP), field))
        else:
            users.append(await _user(people, name, field))
    return Approvers(tuple(dict.fromkeys(users)), tuple(dict.fromkeys(groups)))


async def _user(people: People, name: str, field: str) -> UserId:
    found = await people.find_user(name)
    if found is None:
        raise InvalidInput(f'{field}: there is no user "{name}". To add one: cortex users add NAME', field=field)
    return found.id


async def _group(people: People, tenant_id: TenantId, name: str, field: str) -> UserGroupId:
    found = await people.find_group(tenant_id, name)
    if found is None:
        raise InvalidInput(
            f'{field}: there is no group "{name}" in this tenant. To add one: cortex users group NAME', field=field
        )
    return found.id
