"""Keys of programs."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath, Input, Name, ReasonQuery
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.core.access import ApiKey, ApiKeyId, Caller, Role
from cortex_plane.operations.add_api_key import LONGEST_TTL_SECONDS, KeyWish, add_api_key
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/keys", tags=["keys"])

Admin = Annotated[Caller, require(Role.ADMIN)]
RoleName = Literal["viewer", "submitter", "operator", "approver", "admin"]


class NewKey(Input):
    name: Name = Field(description="What it is for.", examples=["nightly import"])
    roles: list[RoleName] = Field(min_length=1, max_length=5, examples=[["submitter"]])
    ttl_seconds: float | None = Field(default=None, gt=0, le=LONGEST_TTL_SECONDS, description="Otherwise it works for ever.")


class AddedKey(BaseModel):
    id: ApiKeyId
    key: ApiKey
    secret: str | None = Field(description="The whole key, shown once.")


@router.get("")
async def list_keys(caller: Admin, plane: ThePlane) -> list[ApiKey]:
    """The keys of your tenant, oldest first; those that no longer work, too. An admin of all tenants also sees those that work
    in every tenant."""
    return await plane.access.keys(tenant=caller.tenant, shared=caller.may(Role.ADMIN, everywhere=True))


@router.post("", status_code=201, response_model=AddedKey)
async def add_key(
    request: Request, caller: Admin, plane: ThePlane, body: NewKey, idempotency_key: IdempotencyKey = None
) -> Response:
    """Makes a key for your tenant. Keys for all tenants are made where the database is: cortex keys add"""
    wish = KeyWish(body.name, body.roles, caller.tenant, ttl_seconds=body.ttl_seconds, created_by=caller.name)

    async def work(ids: NewId) -> AddedKey:
        opened = await plane._open_here()
        added = await add_api_key(opened.store, opened.directory, ids, wish)
        return AddedKey(id=added.key.id, key=added.key, secret=added.secret)

    return await created(request, caller, idempotency_key, AddedKey, work, secret="secret")


@router.delete("/{key_id}")
async def revoke_key(caller: Admin, plane: ThePlane, key_id: IdPath, reason: ReasonQuery = None) -> ApiKey:
    """Takes a key back. It stays in the list."""
    shared = caller.may(Role.ADMIN, everywhere=True)
    return await plane.access.revoke_key(key_id, tenant=caller.tenant, shared=shared, actor=caller.name, reason=reason)
