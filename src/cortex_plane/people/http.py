"""HTTP: /api/v1/users and /api/v1/user-groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.audit.model import AuditEntry
from cortex_plane.cursors import cursor_for
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Cursor, Input, Limit, NamePath, Page, Text, WithReason, name_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.people.erasing import Erased
from cortex_plane.people.http_access import RoleName
from cortex_plane.people.login import add_account
from cortex_plane.people.model import EMAIL, NAME, NAME_LIMIT, User, UserGroup, UserGroupNotFound, checked_email, checked_name
from cortex_plane.people.roles import LONGEST_PASSWORD, SHORTEST_PASSWORD, Account, Caller, Role, RoleMissing
from cortex_plane.people.users import add_user as add_owned
from cortex_plane.people.users import (
    add_user_group,
    change_owner,
    disable_user,
    enable_user,
    find_user_in,
    join_user_group,
    leave_user_group,
)
from cortex_plane.plane import Plane

router = APIRouter(prefix=f"{PREFIX}/users", tags=["users"])

Admin = Annotated[Caller, require(Role.ADMIN)]
AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]
# For readers of the schema; people are told in words.
PersonName = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, json_schema_extra={"pattern": f"^{NAME.pattern}$"})]
EmailAddress = Annotated[str, Field(max_length=200, json_schema_extra={"pattern": f"^{EMAIL.pattern}$"})]


class NewUser(Input):
    name: PersonName = Field(description="What they sign in with.", examples=["ada"])
    display_name: PersonName | None = Field(default=None, examples=["Ada"])
    email: EmailAddress | None = Field(default=None, examples=["ada@example.com"])
    owner: PersonName | None = Field(
        default=None, description="The admin who owns it: then it is a service account, which programs act as by its keys."
    )


class Owner(Input):
    owner: PersonName = Field(description="An admin.", examples=["ada"])


class Password(Input):
    password: Text = Field(min_length=SHORTEST_PASSWORD, max_length=LONGEST_PASSWORD, examples=["correct horse battery staple"])


class GivenTo(Input):
    role: RoleName = Field(examples=["operator"])
    everywhere: bool = Field(default=False, description="In all tenants, not only in yours: for admins of all of them.")

    def tenant_for(self, caller: Caller) -> str | None:
        if self.everywhere and not caller.may(Role.ADMIN, everywhere=True):
            raise RoleMissing(Role.ADMIN, everywhere=True)
        return None if self.everywhere else caller.tenant


@router.get("")
async def list_users(_caller: AdminOfAll, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[User]:
    """By name."""
    found = await plane.store.people.list_users(after=name_in("user", cursor) or "", limit=limit)
    return Page(items=found, next=cursor_for("user", found[-1].name) if len(found) == limit else None)


@router.post("", status_code=201, response_model=Account)
async def add_user(
    request: Request, caller: AdminOfAll, plane: ThePlane, body: NewUser, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a person, who may do nothing until given a role, and signs in once there is a password; or a service account."""
    checked_name(body.name)
    if body.email is not None:
        checked_email(body.email)

    async def work(ids: NewId) -> Account:
        store = plane.store
        if body.owner is None:
            return await add_account(store, ids, body.name, display_name=body.display_name, email=body.email, actor=caller.name)
        await add_owned(
            store, ids, body.name, display_name=body.display_name, email=body.email, owner=body.owner, actor=caller.name
        )
        return await plane.access.user(body.name)

    return await created(request, caller, idempotency_key, Account, work)


@router.get("/{name}")
async def get_user(_caller: AdminOfAll, plane: ThePlane, name: NamePath) -> Account:
    """One person, with all roles."""
    return await plane.access.user(name)


@router.post("/{name}/disable")
async def disable(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Account:
    """From now on they may do nothing. Their sign-ins, keys, sessions, event streams and the links that were sent to them end,
    and do not come back when they are enabled."""
    await disable_user(plane.store, name, actor=caller.name, reason=body.reason)
    return await plane.access.user(name)


@router.post("/{name}/enable")
async def enable(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Account:
    """Lets them do again what their roles say. Keys are made anew."""
    await enable_user(plane.store, name, actor=caller.name, reason=body.reason)
    return await plane.access.user(name)


@router.post("/{name}/erase")
async def erase(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Erased:
    """Removes what is stored about a person; the audit log keeps a pseudonym. It cannot be undone."""
    return await plane.people.erase(name, actor=caller.name, reason=body.reason)


@router.put("/{name}/owner")
async def set_owner(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: Owner) -> Account:
    """Gives a service account to another admin."""
    await change_owner(plane.store, name, body.owner, actor=caller.name)
    return await plane.access.user(name)


@router.put("/{name}/password", status_code=204, response_model=None)
async def set_password(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: Password) -> None:
    """Sets their password, and signs them out everywhere."""
    await plane.access.set_password(name, body.password, actor=caller.name)


@router.post("/{name}/give-role")
async def give_role(caller: Admin, plane: ThePlane, name: NamePath, body: GivenTo) -> Account:
    """Gives a person a role in your tenant. What they have already they keep. Whoever has none there is not found, unless an
    admin of all tenants asks: who else there is, is not told."""
    await _must_be_here(plane, caller, name)
    return _seen_by(caller, await plane.access.give_role(name, body.role, tenant=body.tenant_for(caller), actor=caller.name))


@router.post("/{name}/take-role")
async def take_role(caller: Admin, plane: ThePlane, name: NamePath, body: GivenTo) -> Account:
    """Takes a role of your tenant away from a person."""
    await _must_be_here(plane, caller, name)
    return _seen_by(caller, await plane.access.take_role(name, body.role, tenant=body.tenant_for(caller), actor=caller.name))


async def _must_be_here(plane: Plane, caller: Caller, name: str) -> None:
    if not caller.may(Role.ADMIN, everywhere=True):
        await find_user_in(plane.store, caller.tenant_id, name)


def _seen_by(caller: Caller, account: Account) -> Account:
    """What somebody may do in other tenants, and how they are reached, is not told in this one."""
    if caller.may(Role.ADMIN, everywhere=True):
        return account
    return replace(account, email=None, given=tuple(one for one in account.given if one.tenant_id in (None, caller.tenant_id)))


# -- user groups -------------------------------------------------------------------------------
# Groups of people, who may be asked together.


user_groups_router = APIRouter(prefix=f"{PREFIX}/user-groups", tags=["users"])

Viewer = Annotated[Caller, require(Role.VIEWER)]


class NewUserGroup(Input):
    name: PersonName = Field(examples=["release managers"])


@user_groups_router.get("")
async def list_user_groups(caller: Viewer, plane: ThePlane) -> list[UserGroup]:
    """Those of your tenant, by name."""
    return await plane.store.people.list_groups(caller.tenant_id)


@user_groups_router.post("", status_code=201, response_model=UserGroup)
async def add(
    request: Request, caller: Admin, plane: ThePlane, body: NewUserGroup, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a group, with nobody in it."""

    async def work(ids: NewId) -> UserGroup:
        return await add_user_group(plane.store, ids, caller.tenant_id, body.name, actor=caller.name)

    return await created(request, caller, idempotency_key, UserGroup, work)


@user_groups_router.get("/{name}")
async def get_user_group(caller: Viewer, plane: ThePlane, name: NamePath) -> UserGroup:
    """One group."""
    return await _group_in(plane, caller, name)


@user_groups_router.delete("/{name}", status_code=204, response_model=None)
async def remove_user_group(caller: Admin, plane: ThePlane, name: NamePath) -> None:
    """Removes a group. Its members stay."""
    group = await _group_in(plane, caller, name)
    about = {"name": name}
    entry = AuditEntry("USER_GROUP_REMOVED", "user_group", group.id, caller.name, tenant_id=caller.tenant_id, details=about)
    await plane.store.people.remove_group(group.id, entry)


@user_groups_router.get("/{name}/members")
async def members(caller: Admin, plane: ThePlane, name: NamePath) -> list[User]:
    """Who is in it, by name. How they are reached is told to admins of all tenants."""
    found = await plane.store.people.members((await _group_in(plane, caller, name)).id)
    return found if caller.may(Role.ADMIN, everywhere=True) else [replace(user, email=None) for user in found]


@user_groups_router.put("/{name}/members/{user}", status_code=204, response_model=None)
async def join(caller: Admin, plane: ThePlane, name: NamePath, user: NamePath) -> None:
    """Puts somebody who has a role in your tenant into it; who is in it already stays."""
    only_here = not caller.may(Role.ADMIN, everywhere=True)
    await join_user_group(plane.store, caller.tenant_id, name, user, actor=caller.name, only_here=only_here)


@user_groups_router.delete("/{name}/members/{user}", status_code=204, response_model=None)
async def leave(caller: Admin, plane: ThePlane, name: NamePath, user: NamePath) -> None:
    """Takes somebody out of it."""
    only_here = not caller.may(Role.ADMIN, everywhere=True)
    await leave_user_group(plane.store, caller.tenant_id, name, user, actor=caller.name, only_here=only_here)


async def _group_in(plane: Plane, caller: Caller, name: str) -> UserGroup:
    group = await plane.store.people.find_group(caller.tenant_id, name)
    if group is None:
        raise UserGroupNotFound(name)
    return group
