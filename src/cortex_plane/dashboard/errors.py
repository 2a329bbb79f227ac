"""What goes wrong on a page is told on a page; what goes wrong in the API stays a problem document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from cortex_plane.dashboard.render import bare_page
from cortex_plane.errors import CortexError
from cortex_plane.http.problems import field_path, kind_of
from cortex_plane.http.redaction import hidden
from cortex_plane.people.roles import NotSignedIn, TooManyTries

Handler = Callable[[Request, Exception], Awaitable[Response]]
PROGRAMS = ("/api/", "/docs", "/problems", "/openapi.json", "/healthz", "/readyz", "/metrics")
OUR_MISTAKE = "Internal error. The server's log has the details."


def show_errors_as_pages(app: FastAPI) -> None:
    """Those who ask for pages get pages: by the address, because a form that is refused has no other mark."""
    for family in (CortexError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(family, _for_pages(app.exception_handlers[family]))


def _for_pages(otherwise: Any) -> Handler:
    async def handle(request: Request, error: Exception) -> Response:
        answer: Response = await otherwise(request, error)
        return answer if is_of_programs(request) else _page(request, error, answer)

    return handle


def is_of_programs(request: Request) -> bool:
    return request.url.path.startswith(PROGRAMS)


def _page(request: Request, error: Exception, answer: Response) -> Response:
    if isinstance(error, NotSignedIn) and "authorization" not in request.headers:
        return _to_the_door(request)
    headers = {"Retry-After": answer.headers["Retry-After"]} if "Retry-After" in answer.headers else {}
    shown = bare_page("error.html", status=answer.status_code, title=_title(error), message=_message(request, error))
    shown.headers.update(headers)
    return shown


def _to_the_door(request: Request) -> Response:
    asked_for = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = asked_for if request.method == "GET" and asked_for != "/" else ""
    return RedirectResponse("/sign-in" + (f"?back={quote(back, safe='')}" if back else ""), 303)


def _title(error: Exception) -> str:
    if isinstance(error, HTTPException):
        return "Page not found" if error.status_code == 404 else "Request rejected"
    if isinstance(error, RequestValidationError):
        return "Invalid input"
    return kind_of(error).title


def _message(request: Request, error: Exception) -> str:
    match error:
        case RequestValidationError():
            return "; ".join(f"{field_path(one['loc'])}: {one['msg']}" for one in error.errors()[:5])
        case HTTPException():
            return f"Nothing is at {hidden(request.url.path)}." if error.status_code == 404 else str(error.detail)
        case TooManyTries() | CortexError():
            return str(error)
        case _:
            return OUR_MISTAKE
