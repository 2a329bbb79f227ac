"""People, and what they may do. Accounts belong to the whole installation, roles to a tenant or to all."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import Input, NamePath, Text, WithReason
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, name_in
from cortex_plane.adapters.http.routes.keys import RoleName
from cortex_plane.core.access import LONGEST_PASSWORD, SHORTEST_PASSWORD, Account, Caller, Role, RoleMissing
from cortex_plane.core.people import EMAIL, NAME, NAME_LIMIT, User, checked_email, checked_name
from cortex_plane.operations.add_account import add_account
from cortex_plane.operations.switch_user import disable_user, enable_user
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/users", tags=["users"])

Admin = Annotated[Caller, require(Role.ADMIN)]
AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]
# For readers of the schema; people are told in words.
PersonName = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, json_schema_extra={"pattern": f"^{NAME.pattern}$"})]
EmailAddress = Annotated[str, Field(max_length=200, json_schema_extra={"pattern": f"^{EMAIL.pattern}$"})]


class NewUser(Input):
    name: PersonName = Field(description="What they sign in with.", examples=["ada"])
    display_name: PersonName | None = Field(default=None, examples=["Ada"])
    email: EmailAddress | None = Field(default=None, examples=["ada@example.com"])


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
    found = await (await plane.store).people.list_users(after=name_in("user", cursor) or "", limit=limit)
    return Page(items=found, next=cursor_for("user", found[-1].name) if len(found) == limit else None)


@router.post("", status_code=201, response_model=Account)
async def add_user(
    request: Request, caller: AdminOfAll, plane: ThePlane, body: NewUser, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a person, who may do nothing until given a role, and signs in once there is a password."""
    checked_name(body.name)
    if body.email is not None:
        checked_email(body.email)

    async def work(ids: NewId) -> Account:
        store = await plane.store
        return await add_account(store, ids, body.name, display_name=body.display_name, email=body.email, actor=caller.name)

    return await created(request, caller, idempotency_key, Account, work)


@router.get("/{name}")
async def get_user(_caller: AdminOfAll, plane: ThePlane, name: NamePath) -> Account:
    """One person, with all roles."""
    return await plane.access.user(name)


@router.post("/{name}/disable")
async def disable(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Account:
    """From now on they may do nothing: their sign-ins and keys work no more."""
    await disable_user(await plane.store, name, actor=caller.name, reason=body.reason)
    return await plane.access.user(name)


@router.post("/{name}/enable")
async def enable(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Account:
    """Lets them do again what their roles say."""
    await enable_user(await plane.store, name, actor=caller.name, reason=body.reason)
    return await plane.access.user(name)


@router.put("/{name}/password", status_code=204)
async def set_password(caller: AdminOfAll, plane: ThePlane, name: NamePath, body: Password) -> None:
    """Sets their password, and signs them out everywhere."""
    await plane.access.set_password(name, body.password, actor=caller.name)


@router.post("/{name}/give-role")
async def give_role(caller: Admin, plane: ThePlane, name: NamePath, body: GivenTo) -> Account:
    """Gives a person a role in your tenant. What they have already they keep."""
    return _seen_by(caller, await plane.access.give_role(name, body.role, tenant=body.tenant_for(caller), actor=caller.name))


@router.post("/{name}/take-role")
async def take_role(caller: Admin, plane: ThePlane, name: NamePath, body: GivenTo) -> Account:
    """Takes a role of your tenant away from a person."""
    return _seen_by(caller, await plane.access.take_role(name, body.role, tenant=body.tenant_for(caller), actor=caller.name))


def _seen_by(caller: Caller, account: Account) -> Account:
    """What somebody may do in other tenants, and how they are reached, is not told in this one."""
    if caller.may(Role.ADMIN, everywhere=True):
        return account
    return replace(account, email=None, given=tuple(one for one in account.given if one.tenant_id in (None, caller.tenant_id)))
