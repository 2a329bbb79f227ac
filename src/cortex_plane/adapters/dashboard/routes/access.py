"""Keys of programs, and people who sign in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import told
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath
from cortex_plane.core.access import Account, AddedKey, Caller, Role
from cortex_plane.core.errors import CortexError, Unavailable
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

Admin = Annotated[Caller, require(Role.ADMIN)]
AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]
Name = Annotated[str, Form(min_length=1, max_length=200)]
RoleName = Annotated[Role, Form()]
SHOWN = 200
DAY_SECONDS = 86_400.0


@router.get("/access")
async def access(request: Request, caller: Admin, plane: ThePlane) -> Response:
    return await _page(request, caller, plane)


@router.post("/keys")
async def add_key(
    request: Request,
    caller: Admin,
    plane: ThePlane,
    name: Name,
    roles: Annotated[list[Role] | None, Form()] = None,
    days: Annotated[str, Form(pattern=r"^\d{0,5}$")] = "",
) -> Response:
    """The key is shown on this answer and nowhere else."""
    try:
        added = await plane.access.add_key(
            name,
            [str(role) for role in roles or []],
            tenant=caller.tenant,
            ttl_seconds=int(days) * DAY_SECONDS if days else None,
            actor=caller.name,
        )
    except Unavailable:
        raise
    except CortexError as error:
        return await _page(request, caller, plane, problem=str(error), status=422)
    return await _page(request, caller, plane, added=added, status=201)


@router.post("/keys/{key_id}/revoke")
async def revoke_key(caller: Admin, plane: ThePlane, key_id: IdPath) -> Response:
    async def work() -> str:
        shared = caller.may(Role.ADMIN, everywhere=True)
        key = await plane.access.revoke_key(key_id, tenant=caller.tenant, shared=shared, actor=caller.name)
        return f"Key {key.name} no longer works."

    return await told("/access", work())


@router.post("/users")
async def add_user(
    caller: AdminOfAll,
    plane: ThePlane,
    name: Name,
    password: Annotated[str, Form(min_length=1, max_length=2_000)],
    role: RoleName,
    email: Annotated[str, Form(max_length=300)] = "",
) -> Response:
    async def work() -> str:
        await plane.access.add_user(name, email=email or None, actor=caller.name)
        await plane.access.set_password(name, password, actor=caller.name)
        await plane.access.give_role(name, role, actor=caller.name)
        return f"{name} can sign in, as {role} in all tenants."

    return await told("/access", work())


@router.post("/users/roles")
async def change_role(
    caller: AdminOfAll,
    plane: ThePlane,
    name: Name,
    role: RoleName,
    change: Annotated[str, Form(pattern="^(give|take)$")],
    tenant: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    async def work() -> str:
        changed = plane.access.give_role if change == "give" else plane.access.take_role
        await changed(name, role, tenant=tenant or None, actor=caller.name)
        where = f'in tenant "{tenant}"' if tenant else "in all tenants"
        return f"{name} is {'now' if change == 'give' else 'no longer'} {role} {where}."

    return await told("/access", work())


async def _page(
    request: Request,
    caller: Caller,
    plane: Plane,
    *,
    added: AddedKey | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    everywhere = caller.may(Role.ADMIN, everywhere=True)
    return await page(
        request,
        caller,
        "access.html",
        status=status,
        keys=await plane.access.keys(tenant=caller.tenant, shared=everywhere),
        users=await _users(plane) if everywhere else None,
        roles=list(Role),
        added=added,
        problem=problem,
    )


async def _users(plane: Plane) -> list[Account]:
    store = await plane.store
    found = [await store.accounts.find(user.name) for user in await store.people.list_users(limit=SHOWN)]
    return [account for account in found if account is not None]
