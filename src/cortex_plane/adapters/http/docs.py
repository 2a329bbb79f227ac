"""The page on which the API can be read and tried. All of it comes from here: nothing is fetched from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from cortex_plane.adapters.http.access import anybody

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
