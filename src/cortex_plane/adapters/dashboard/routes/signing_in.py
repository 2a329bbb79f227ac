"""The door: signing in by password or by the first link, and signing out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from cortex_plane.adapters.dashboard.first_link import FirstLink
from cortex_plane.adapters.dashboard.notes import go_to, own
from cortex_plane.adapters.dashboard.rendering import bare_page
from cortex_plane.adapters.http.access import COOKIE, SECURE_COOKIE, ThePlane, address_of, anybody, known, session_token
from cortex_plane.adapters.http.errors import kind_of
from cortex_plane.core.access import Caller, NotSignedIn, SignedIn, TooManyTries, WrongPassword

router = APIRouter(include_in_schema=False)

Back = Annotated[str, Query(max_length=2_000)]


@router.get("/sign-in", dependencies=[anybody])
async def ask(back: Back = "/") -> Response:
    return bare_page("sign_in.html", back=own(back), problem=None, name="")


@router.post("/sign-in", dependencies=[anybody])
async def sign_in(
    request: Request,
    plane: ThePlane,
    name: Annotated[str, Form(min_length=1, max_length=200)],
    password: Annotated[str, Form(min_length=1, max_length=2_000)],
    back: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    try:
        signed_in = await plane.access.sign_in(name, password, address_of(request))
    except (WrongPassword, TooManyTries) as error:
        return bare_page("sign_in.html", status=kind_of(error).status, back=own(back), problem=str(error), name=name)
    return _with_cookie(request, go_to(back), signed_in)


@router.get("/first", dependencies=[anybody])
async def first(request: Request, plane: ThePlane, token: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The address of the link is left at once, so that it is in no history and no picture of the screen."""
    link: FirstLink | None = request.app.state.first_link
    signed_in = await link.redeem(plane, token, address_of(request)) if link else None
    if signed_in is None:
        raise NotSignedIn("This link was used already, or never was one. Start the server again for a new one.")
    return _with_cookie(request, go_to("/"), signed_in)


@router.post("/sign-out")
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
