"""Dashboard pages: people and keys, tenants, sign-in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from cortex_plane.dashboard.flash import go_to, own, told
from cortex_plane.dashboard.live import FirstLink
from cortex_plane.dashboard.render import bare_page, page
from cortex_plane.errors import CortexError, Unavailable
from cortex_plane.http.auth import (
    COOKIE,
    SECURE_COOKIE,
    ThePlane,
    address_of,
    anybody,
    known,
    refuse_other_sites,
    require,
    session_token,
)
from cortex_plane.http.inputs import IdPath, NamePath
from cortex_plane.http.problems import kind_of
from cortex_plane.people.keys import owner_for
from cortex_plane.people.roles import Account, AddedKey, Caller, NotSignedIn, Role, SignedIn, TooManyTries, WrongPassword
from cortex_plane.people.tenants import add_tenant, show_tenant
from cortex_plane.plane import Plane
from cortex_plane.queues.model import Scope

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
    user: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """The key is shown on this answer and nowhere else."""
    try:
        owner = await owner_for(plane.store, caller.user_id, caller.tenant_id, user or None)
        added = await plane.access.add_key(
            name,
            [str(role) for role in roles or []],
            tenant=caller.tenant,
            user=owner,
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
    store = plane.store
    found = [await store.accounts.find(user.name) for user in await store.people.list_users(limit=SHOWN)]
    return [account for account in found if account is not None]


# -- tenants -----------------------------------------------------------------------------------
# Tenants: how much each does, what it costs, what it may cost.


tenants_router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
Operator = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]
TenantsAdmin = Annotated[Caller, require(Role.ADMIN, everywhere=True)]
Reason = Annotated[str, Form(max_length=2_000)]
SHOWN_TENANTS = 100


@tenants_router.get("/tenants")
async def tenants(request: Request, caller: Viewer, plane: ThePlane) -> Response:
    store = plane.store
    named = (await store.tenants.list())[:SHOWN_TENANTS]
    budgets = {budget.name: budget for budget in await plane.costs.budgets() if budget.scope is Scope.TENANT}
    return await page(
        request,
        caller,
        "tenants.html",
        overviews=[await show_tenant(store, tenant.name) for tenant in named],
        budgets=budgets,
    )


@tenants_router.post("/tenants")
async def add(
    caller: TenantsAdmin, plane: ThePlane, name: Annotated[str, Form(min_length=1, max_length=200)], reason: Reason = ""
) -> Response:
    async def work() -> str:
        await add_tenant(plane.store, plane._ids, name, actor=caller.name, reason=reason or None)
        return f'There is a tenant "{name}" now.'

    return await told("/tenants", work())


@tenants_router.post("/tenants/{name}/pause")
async def pause(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.queues.pause(tenant=name, reason=reason or None, actor=caller.name)
        return f'Tenant "{name}" is paused: nothing more of it starts.'

    return await told("/tenants", work())


@tenants_router.post("/tenants/{name}/resume")
async def resume(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.queues.resume(tenant=name, reason=reason or None, actor=caller.name)
        return f'Tenant "{name}" goes on.'

    return await told("/tenants", work())


# -- signing in --------------------------------------------------------------------------------
# The door: signing in by password or by the first link, and signing out.


login_router = APIRouter(include_in_schema=False)

Back = Annotated[str, Query(max_length=2_000)]


@login_router.get("/sign-in", dependencies=[anybody])
async def ask(back: Back = "/") -> Response:
    return bare_page("sign_in.html", back=own(back), problem=None, name="")


@login_router.post("/sign-in", dependencies=[anybody])
async def sign_in(
    request: Request,
    plane: ThePlane,
    name: Annotated[str, Form(min_length=1, max_length=200)],
    password: Annotated[str, Form(min_length=1, max_length=2_000)],
    back: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    refuse_other_sites(request)
    try:
        signed_in = await plane.access.sign_in(name, password, address_of(request))
    except (WrongPassword, TooManyTries) as error:
        return bare_page("sign_in.html", status=kind_of(error).status, back=own(back), problem=str(error), name=name)
    return _with_cookie(request, go_to(back), signed_in)


@login_router.get("/first", dependencies=[anybody])
async def first(request: Request, plane: ThePlane, token: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The address of the link is left at once, so that it is in no history and no picture of the screen."""
    link: FirstLink | None = request.app.state.first_link
    signed_in = await link.redeem(plane, token, address_of(request)) if link else None
    if signed_in is None:
        raise NotSignedIn("This link was used already, or never was one. Start the server again for a new one.")
    return _with_cookie(request, go_to("/"), signed_in)


@login_router.post("/sign-out")
async def sign_out(request: Request, _caller: Annotated[Caller, known()], plane: ThePlane) -> Response:
    if token := session_token(request):
        await plane.access.sign_out(token)
    answer = go_to("/sign-in")
    answer.delete_cookie(COOKIE)
    answer.delete_cookie(SECURE_COOKIE, secure=True)
    return answer


def _with_cookie(request: Request, answer: Response, signed_in: SignedIn) -> Response:
    secure = bool(request.app.state.secure)
    answer.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        signed_in.token,
        max_age=int(signed_in.ttl_seconds),
        httponly=True,
        secure=secure,
        samesite="lax",
    )
    return answer
