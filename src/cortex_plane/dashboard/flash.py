"""Messages on the page after an action, and the redirect that keeps the tenant."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import MutableHeaders

from cortex_plane.errors import CortexError, Unavailable
from cortex_plane.people.roles import NotSignedIn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


COOKIE = "cortex_note"
LONGEST = 1_500
SECONDS = 60
Kind = Literal["done", "refused"]


@dataclass(frozen=True, slots=True)
class Note:
    kind: Kind
    text: str


async def told(back: str, work: Awaitable[str]) -> Response:
    """Does the work, then shows the page again from which it was asked for, with what came of it."""
    try:
        return go_to(back, Note("done", await work))
    except (Unavailable, NotSignedIn):
        raise
    except CortexError as error:
        return go_to(back, Note("refused", str(error)))


def go_to(address: str, note: Note | None = None) -> RedirectResponse:
    answer = RedirectResponse(own(address), 303)
    if note is not None:
        text = json.dumps([note.kind, note.text[:LONGEST]], ensure_ascii=False)
        answer.set_cookie(COOKIE, urlsafe_b64encode(text.encode()).decode(), max_age=SECONDS, httponly=True, samesite="lax")
    return answer


def own(address: str, otherwise: str = "/") -> str:
    """Only addresses of ours: a form may have been given one by somebody else."""
    ours = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if ours else otherwise


def note_in(request: Request) -> Note | None:
    found = request.cookies.get(COOKIE)
    if not found:
        return None
    try:
        kind, text = json.loads(urlsafe_b64decode(found))
    except (ValueError, TypeError):
        return None
    return Note("refused" if kind == "refused" else "done", str(text)[:LONGEST])


def forget_note(answer: Response) -> None:
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax")


# -- staying -----------------------------------------------------------------------------------
# Whoever acts in a tenant that they chose is still there on the page after it.


SEE_OTHER = 303


class StayInTenant:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tenant")
        if scope["type"] != "http" or scope["method"] != "POST" or not chosen:
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == SEE_OTHER:
                headers = MutableHeaders(scope=message)
                headers["location"] = in_tenant(headers["location"], chosen[0])
            await send(message)

        await self._app(scope, receive, sending)


def in_tenant(address: str, tenant: str) -> str:
    """An address that names a tenant keeps it."""
    parts = urlsplit(address)
    if "tenant" in parse_qs(parts.query, keep_blank_values=True):
        return address
    query = "&".join(part for part in (parts.query, urlencode({"tenant": tenant})) if part)
    return urlunsplit(parts._replace(query=query))
