"""What is said once, on the page after an action: "Cancelled 3 jobs." It travels in a cookie, so that any server may say it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from cortex_plane.core.access import NotSignedIn
from cortex_plane.core.errors import CortexError, Unavailable

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
