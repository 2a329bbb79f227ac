"""Groups of people, who may be asked together."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import Input, NamePath
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.adapters.http.routes.users import PersonName
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.people import User, UserGroup, UserGroupNotFound
from cortex_plane.operations.add_user_group import add_user_group
from cortex_plane.operations.join_user_group import join_user_group, leave_user_group
from cortex_plane.plane import Plane
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/user-groups", tags=["users"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Admin = Annotated[Caller, require(Role.ADMIN)]


class NewUserGroup(Input):
    name: PersonName = Field(examples=["release managers"])


@router.get("")
async def list_user_groups(caller: Viewer, plane: ThePlane) -> list[UserGroup]:
    """Those of your tenant, by name."""
    return await (await plane.store).people.list_groups(caller.tenant_id)


@router.post("", status_code=201, response_model=UserGroup)
async def add(
    request: Request, caller: Admin, plane: ThePlane, body: NewUserGroup, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a group, with nobody in it."""

    async def work(ids: NewId) -> UserGroup:
        return await add_user_group(await plane.store, ids, caller.tenant_id, body.name, actor=caller.name)

    return await created(request, caller, idempotency_key, UserGroup, work)


@router.get("/{name}")
async def get_user_group(caller: Viewer, plane: ThePlane, name: NamePath) -> UserGroup:
    """One group."""
    return await _group_in(plane, caller, name)


@router.delete("/{name}", status_code=204)
async def remove_user_group(caller: Admin, plane: ThePlane, name: NamePath) -> None:
    """Removes a group. Its members stay."""
    group = await _group_in(plane, caller, name)
    about = {"name": name}
    entry = AuditEntry("USER_GROUP_REMOVED", "user_group", group.id, caller.name, tenant_id=caller.tenant_id, details=about)
    await (await plane.store).people.remove_group(group.id, entry)


@router.get("/{name}/members")
async def members(caller: Admin, plane: ThePlane, name: NamePath) -> list[User]:
    """Who is in it, by name."""
    return await (await plane.store).people.members((await _group_in(plane, caller, name)).id)


@router.put("/{name}/members/{user}", status_code=204)
async def join(caller: Admin, plane: ThePlane, name: NamePath, user: NamePath) -> None:
    """Puts somebody into it; who is in it already stays."""
    await join_user_group(await plane.store, caller.tenant_id, name, user, actor=caller.name)


@router.delete("/{name}/members/{user}", status_code=204)
async def leave(caller: Admin, plane: ThePlane, name: NamePath, user: NamePath) -> None:
    """Takes somebody out of it."""
    await leave_user_group(await plane.store, caller.tenant_id, name, user, actor=caller.name)


async def _group_in(plane: Plane, caller: Caller, name: str) -> UserGroup:
    group = await (await plane.store).people.find_group(caller.tenant_id, name)
    if group is None:
        raise UserGroupNotFound(name)
    return group
