"""Figures for Prometheus. With CORTEX_METRICS_TOKEN, for whoever has it; without, for programs on this machine only."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from fastapi import APIRouter, Request, Response

from cortex_plane.errors import CortexError, Denied
from cortex_plane.http.auth import ThePlane, anybody
from cortex_plane.http.health import loops_in
from cortex_plane.http_client import is_in, networks
from cortex_plane.metrics.model import Figures
from cortex_plane.metrics.prometheus import exposition
from cortex_plane.people.roles import NotSignedIn
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings

router = APIRouter(include_in_schema=False)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KEPT_SECONDS = 5.0
LOOPBACK = networks("127.0.0.0/8, ::1", "loopback")
FORWARDED = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
)


@dataclass(slots=True)
class KeptFigures:
    """However often anybody asks, the database is asked every few seconds at most."""

    figures: Figures | None = None
    asked_at: float | None = None

    async def of(self, plane: Plane) -> Figures | None:
        now = plane.clock.elapsed()
        if self.asked_at is None or now - self.asked_at >= KEPT_SECONDS:
            self.asked_at = now
            try:
                self.figures = await plane.store.gauges.figures()
            except CortexError:
                self.figures = None
        return self.figures


@router.get("/metrics", dependencies=[anybody])
async def metrics(request: Request, plane: ThePlane) -> Response:
    kept: KeptFigures | None = request.app.state.figures
    _check(request, plane.settings, is_api=kept is not None)
    figures = None if kept is None else await kept.of(plane)
    body = exposition(figures, loops_in(request, plane), asked=kept is not None)
    return Response(body, media_type=MEDIA_TYPE)


def _check(request: Request, settings: Settings, *, is_api: bool) -> None:
    """The API of an installation that is reached under names of its own stands behind a proxy, and a proxy need not say so."""
    token = settings.metrics_token
    is_proxied = is_api and bool(settings.allowed_hosts or settings.secure_cookies or settings.trusted_proxies)
    if token:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(_digest(given.strip()), _digest(token)):
            raise NotSignedIn("Metrics need the token that CORTEX_METRICS_TOKEN says: Authorization: Bearer …")
    elif is_proxied or not _is_local(request):
        raise Denied("Without CORTEX_METRICS_TOKEN, metrics are for programs on this machine only, and not behind a proxy.")


def _is_local(request: Request) -> bool:
    """What a proxy on this machine passes on comes from elsewhere."""
    if any(name in request.headers for name in FORWARDED):
        return False
    return is_in(request.client.host, LOOPBACK) if request.client else False


def _digest(token: str) -> bytes:
    """Of one length, so that a comparison tells nothing of the token's."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
