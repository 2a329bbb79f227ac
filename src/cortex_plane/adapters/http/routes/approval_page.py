"""The page behind the link in a message: what is asked, and two buttons. Only pressing one of them decides.

Chat programs, mail scanners and browsers fetch links by themselves, so that a GET changes nothing.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from cortex_plane.adapters.http.access import ThePlane, anybody_by_link
from cortex_plane.adapters.http.approval_view import Form, form_of, notice_of, shown_page, unknown_page
from cortex_plane.adapters.http.decisions import refuse_guessing, status_of
from cortex_plane.core.decisions import Unknown
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.decide_approval import decide_by_token, look_by_token
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False, dependencies=[anybody_by_link])

DOOR = "page"
PACKAGE = "cortex_plane.adapters.http"


@router.get("/approvals/{token}")
async def look(request: Request, plane: ThePlane, token: str) -> Response:
    store = await plane.store
    found = await look_by_token(store, token)
    await refuse_guessing(store, request, found)
    return _rendered(unknown_page(), 404) if found is None else await _page(plane, token)


@router.post("/approvals/{token}")
async def decide(request: Request, plane: ThePlane, token: str) -> Response:
    form = form_of(await request.body())
    store = await plane.store
    try:
        answer = await decide_by_token(store, token, form.decision, reason=form.reason, edits=form.edits, door=DOOR)
    except InvalidInput as error:
        return await _page(plane, token, form, str(error), 422)
    await refuse_guessing(store, request, answer)
    if isinstance(answer, Unknown):
        return _rendered(unknown_page(), 404)
    return await _page(plane, token, form, notice_of(answer), status_of(answer))


@router.get("/approval-page.css")
async def style() -> Response:
    css = (files(PACKAGE) / "templates" / "approval.css").read_bytes()
    return Response(css, media_type="text/css", headers={"Cache-Control": "public, max-age=3600"})


async def _page(plane: Plane, token: str, form: Form | None = None, notice: str = "", status: int = 200) -> Response:
    store = await plane.store
    found = await look_by_token(store, token)
    if found is None:
        return _rendered(unknown_page(), 404)
    request, user_id = found
    voted = any(vote.user_id == user_id for vote in await store.approvals.votes(request.id))
    return _rendered(shown_page(request, plane.clock.now(), form or Form(), notice, voted=voted), status)


def _rendered(view: dict[str, object], status: int) -> Response:
    return Response(_environment().get_template("approval.html").render(view), status, media_type="text/html")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(PACKAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
