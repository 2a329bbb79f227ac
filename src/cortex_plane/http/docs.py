"""The API reference page, and the pages of problem types."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response
from pydantic import BaseModel

from cortex_plane.errors import NotFound
from cortex_plane.http.auth import anybody
from cortex_plane.http.inputs import NamePath
from cortex_plane.http.problems import Kind, all_kinds

router = APIRouter(include_in_schema=False)

FOLDER = files("fastapi_swagger") / "resources"

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Cortex Plane API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, filter: true, validatorUrl: null,
  persistAuthorization: false, presets: [SwaggerUIBundle.presets.apis], layout: "BaseLayout"
});
"""

# Its styles are set by script, on elements: the page itself has none inline, and no script.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


@router.get("/docs", dependencies=[anybody])
async def page() -> Response:
    return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": POLICY})


@router.get("/docs/start.js", dependencies=[anybody])
async def start() -> Response:
    return Response(START, media_type="text/javascript")


@router.get("/docs/swagger-ui-bundle.js", dependencies=[anybody])
async def script() -> Response:
    return _file("swagger-ui-bundle.js", "text/javascript")


@router.get("/docs/swagger-ui.css", dependencies=[anybody])
async def style() -> Response:
    return _file("swagger-ui.css", "text/css")


@router.get("/docs/favicon-32x32.png", dependencies=[anybody])
async def icon() -> Response:
    return _file("favicon-32x32.png", "image/png")


def _file(name: str, media_type: str) -> Response:
    return Response((FOLDER / name).read_bytes(), media_type=media_type, headers={"Cache-Control": "max-age=3600"})


# -- problems ----------------------------------------------------------------------------------
# What the types of problems mean: each is an address, and here is what is found there.


problems_router = APIRouter(prefix="/problems", tags=["problems"])


class ProblemKind(BaseModel):
    type: str
    title: str
    status: int


@problems_router.get("", dependencies=[anybody])
async def list_problems() -> list[ProblemKind]:
    """Every type of problem that there is."""
    return [_described(kind) for kind in all_kinds().values()]


@problems_router.get("/{code}", dependencies=[anybody])
async def get_problem(code: NamePath) -> ProblemKind:
    """One type of problem."""
    kind = all_kinds().get(code)
    if kind is None:
        raise NotFound(f"There is no type of problem {code!r:.80}. All of them: /problems")
    return _described(kind)


def _described(kind: Kind) -> ProblemKind:
    return ProblemKind(type=f"/problems/{kind.code}", title=kind.title, status=kind.status)
