"""Finds the people and groups that a gate names: `alice` is a person, `group:ops` a group of the job's tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.core.approvals import Approvers
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import UserGroupId, UserGroupNotFound, UserId, UserNotFound
from cortex_plane.ports.people import People

GROUP = "group:"


async def find_approvers(people: People, tenant_id: TenantId, names: str | Sequence[str] | None) -> Approvers:
    """Nobody named is nobody found. Raises NotFound for a name that does not exist."""
    users: list[UserId] = []
    groups: list[UserGroupId] = []
    for name in _checked(names):
        if name.startswith(GROUP):
            groups.append(await _group(people, tenant_id, name.removeprefix(GROUP)))
        else:
            users.append(await _user(people, name))
    return Approvers(tuple(dict.fromkeys(users)), tuple(dict.fromkeys(groups)))


async def _user(people: People, name: str) -> UserId:
    user = await people.find_user(name)
    if user is None:
        raise UserNotFound(name)
    return user.id


async def _group(people: People, tenant_id: TenantId, name: str) -> UserGroupId:
    group = await people.find_group(tenant_id, name)
    if group is None:
        raise UserGroupNotFound(name)
    return group.id


def _checked(names: Any) -> Sequence[str]:
    wanted = [names] if isinstance(names, str) else list(names or ())
    if not all(isinstance(name, str) and name.strip() for name in wanted):
        raise InvalidInput("approvers must be names of people, or of groups as group:NAME.", field="approvers")
    return wanted
