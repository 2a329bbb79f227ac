"""Style, script and pictures of the pages. Their addresses hold a digest, so that browsers may keep them for ever.

htmx is built into our wheel, from the wheel of django-htmx. In a checkout that is used as it is, it is taken from there.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Response

from cortex_plane.adapters.http.access import anybody
from cortex_plane.core.errors import NotFound, Unavailable

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parent / "static"
HTMX = "htmx.min.js"
TYPES = {"style.css": "text/css", "cortex.js": "text/javascript", HTMX: "text/javascript", "icon.svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/static/{digest}/{name}", dependencies=[anybody])
async def static(digest: str, name: str) -> Response:
    if name not in TYPES or digest != _digest(name):
        raise NotFound(f"There is no such file: {name!r:.80}.")
    return Response(_content(name), media_type=TYPES[name], headers={"Cache-Control": FOR_EVER})


def address_of_file(name: str) -> str:
    return f"/static/{_digest(name)}/{name}"


@lru_cache
def _digest(name: str) -> str:
    return sha256(_content(name)).hexdigest()[:16]


@lru_cache
def _content(name: str) -> bytes:
    built_in = FOLDER / name
    if name != HTMX or built_in.exists():
        return built_in.read_bytes()
    package = find_spec("django_htmx")
    if package is None or package.origin is None:
        raise Unavailable("The file of htmx is missing from this installation. Run: make setup")
    return (Path(package.origin).parent / "static" / "django_htmx" / "htmx-2.min.js").read_bytes()
