"""HTTP: API keys, sign-in and sign-out."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.http.auth import (
    COOKIE,
    SECURE_COOKIE,
    ThePlane,
    address_of,
    anybody,
    csrf_token,
    known,
    refuse_other_sites,
    require,
    session_token,
)
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import IdPath, Input, Name, ReasonQuery, Text
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.people.keys import LONGEST_TTL_SECONDS, KeyWish, add_api_key, owner_for
from cortex_plane.people.roles import ApiKey, ApiKeyId, Caller, Role

router = APIRouter(prefix=f"{PREFIX}/keys", tags=["keys"])

Admin = Annotated[Caller, require(Role.ADMIN)]
RoleName = Literal["viewer", "submitter", "operator", "approver", "admin"]


class NewKey(Input):
    name: Name = Field(description="What it is for.", examples=["nightly import"])
    roles: list[RoleName] = Field(min_length=1, max_length=5, examples=[["submitter"]])
    user: Name | None = Field(
        default=None, description="The service account that it is for. Otherwise it is yours, and ends with your account."
    )
    ttl_seconds: float | None = Field(default=None, gt=0, le=LONGEST_TTL_SECONDS, description="Otherwise it works for ever.")


class AddedKeyView(BaseModel):
    id: ApiKeyId
    key: ApiKey
    secret: str | None = Field(description="The whole key, shown once.")


@router.get("")
async def list_keys(caller: Admin, plane: ThePlane) -> list[ApiKey]:
    """The keys of your tenant, oldest first; those that no longer work, too. An admin of all tenants also sees those that work
    in every tenant."""
    return await plane.access.keys(tenant=caller.tenant, shared=caller.may(Role.ADMIN, everywhere=True))


@router.post("", status_code=201, response_model=AddedKeyView)
async def add_key(
    request: Request, caller: Admin, plane: ThePlane, body: NewKey, idempotency_key: IdempotencyKey = None
) -> Response:
    """Makes a key for your tenant: yours, or that of a service account. Keys for all tenants are made where the
    database is: cortex keys add"""
    owner = await owner_for(plane.store, caller.user_id, caller.tenant_id, body.user)
    wish = KeyWish(body.name, body.roles, caller.tenant, owner, ttl_seconds=body.ttl_seconds, created_by=caller.name)

    async def work(ids: NewId) -> AddedKeyView:
        added = await add_api_key(plane.store, plane.directory, ids, wish)
        return AddedKeyView(id=added.key.id, key=added.key, secret=added.secret)

    return await created(request, caller, idempotency_key, AddedKeyView, work, secret="secret")


@router.delete("/{key_id}")
async def revoke_key(caller: Admin, plane: ThePlane, key_id: IdPath, reason: ReasonQuery = None) -> ApiKey:
    """Takes a key back. It stays in the list."""
    shared = caller.may(Role.ADMIN, everywhere=True)
    return await plane.access.revoke_key(key_id, tenant=caller.tenant, shared=shared, actor=caller.name, reason=reason)


# -- session -----------------------------------------------------------------------------------
# Signing in and out, and who one is.


login_router = APIRouter(prefix=PREFIX, tags=["session"])


class SignIn(Input):
    name: Name = Field(examples=["ada"])
    password: Text = Field(min_length=1, examples=["correct horse battery staple"])


class Login(BaseModel):
    name: str
    csrf_token: str = Field(description="Send it as X-CSRF-Token with every change.")
    expires_in_seconds: float


class Me(BaseModel):
    name: str
    user: str | None = Field(description="The person; null for keys of service accounts, and for those that are nobody's.")
    tenant: str
    roles: list[Role]
    roles_everywhere: list[Role]
    csrf_token: str | None = Field(description="For those who are signed in by cookie.")


@login_router.post("/session", dependencies=[anybody])
async def sign_in(request: Request, response: Response, plane: ThePlane, body: SignIn) -> Login:
    """Signs a person in: sets a cookie that scripts cannot read."""
    refuse_other_sites(request)
    signed_in = await plane.access.sign_in(body.name, body.password, address_of(request))
    secure = bool(request.app.state.secure)
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        signed_in.token,
        max_age=int(signed_in.ttl_seconds),
        httponly=True,
        secure=secure,
        samesite="lax",
    )
    token = csrf_token(signed_in.token)
    return Login(name=signed_in.account.name, csrf_token=token, expires_in_seconds=signed_in.ttl_seconds)


@login_router.delete("/session", status_code=204, response_model=None)
async def sign_out(_caller: Annotated[Caller, known()], request: Request, response: Response, plane: ThePlane) -> None:
    """Signs out the browser that asks."""
    if token := session_token(request):
        await plane.access.sign_out(token)
    response.delete_cookie(COOKIE)
    response.delete_cookie(SECURE_COOKIE, secure=True)


@login_router.get("/me")
async def me(caller: Annotated[Caller, known()], request: Request, plane: ThePlane) -> Me:
    """Who you are, and what you may do in this tenant."""
    token = None if "authorization" in request.headers else session_token(request)
    user = None if caller.user_id is None else await plane.store.people.get_user(caller.user_id)
    return Me(
        name=caller.name,
        user=None if user is None or user.owner_id is not None else user.name,
        tenant=caller.tenant,
        roles=sorted(caller.roles),
        roles_everywhere=sorted(caller.everywhere),
        csrf_token=csrf_token(token) if token else None,
    )
