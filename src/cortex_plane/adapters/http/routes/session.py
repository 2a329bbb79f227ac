"""Signing in and out, and who one is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.adapters.http.access import (
    COOKIE,
    SECURE_COOKIE,
    ThePlane,
    address_of,
    anybody,
    csrf_token,
    known,
    session_token,
)
from cortex_plane.adapters.http.inputs import Input, Name, Text
from cortex_plane.core.access import Caller, Role

router = APIRouter(tags=["session"])


class SignIn(Input):
    name: Name = Field(examples=["ada"])
    password: Text = Field(min_length=1, examples=["correct horse battery staple"])


class Session(BaseModel):
    name: str
    csrf_token: str = Field(description="Send it as X-CSRF-Token with every change.")
    expires_in_seconds: float


class Me(BaseModel):
    name: str
    tenant: str
    roles: list[Role]
    roles_everywhere: list[Role]
    csrf_token: str | None = Field(description="For those who are signed in by cookie.")


@router.post("/session", dependencies=[anybody])
async def sign_in(request: Request, response: Response, plane: ThePlane, body: SignIn) -> Session:
    """Signs a person in: sets a cookie that scripts cannot read."""
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
    return Session(name=signed_in.account.name, csrf_token=token, expires_in_seconds=signed_in.ttl_seconds)


@router.delete("/session", status_code=204)
async def sign_out(_caller: Annotated[Caller, known()], request: Request, response: Response, plane: ThePlane) -> None:
    """Signs out the browser that asks."""
    if token := session_token(request):
        await plane.access.sign_out(token)
    response.delete_cookie(COOKIE)
    response.delete_cookie(SECURE_COOKIE, secure=True)


@router.get("/me")
async def me(caller: Annotated[Caller, known()], request: Request) -> Me:
    """Who you are, and what you may do in this tenant."""
    token = None if "authorization" in request.headers else session_token(request)
    return Me(
        name=caller.name,
        tenant=caller.tenant,
        roles=sorted(caller.roles),
        roles_everywhere=sorted(caller.everywhere),
        csrf_token=csrf_token(token) if token else None,
    )
