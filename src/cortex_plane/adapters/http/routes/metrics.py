"""Figures for Prometheus. With CORTEX_METRICS_TOKEN, for whoever has it; without, for programs on this machine only."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from cortex_plane.adapters.http.access import ThePlane, address_of, anybody
from cortex_plane.adapters.http.routes.health import duties_in
from cortex_plane.adapters.metrics import exposition
from cortex_plane.core.access import NotSignedIn
from cortex_plane.core.errors import CortexError, Denied
from cortex_plane.core.figures import Figures
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

KEPT_SECONDS = 5.0
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


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
                self.figures = await (await plane.store).gauges.figures()
            except CortexError:
                self.figures = None
        return self.figures


@router.get("/metrics", dependencies=[anybody])
async def metrics(request: Request, plane: ThePlane) -> Response:
    _check(request, plane.settings.metrics_token)
    kept: KeptFigures | None = request.app.state.figures
    figures = None if kept is None else await kept.of(plane)
    body = exposition(figures, duties_in(request, plane), asked=kept is not None)
    return Response(body, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _check(request: Request, token: str) -> None:
    if token:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(_digest(given.strip()), _digest(token)):
            raise NotSignedIn("Metrics need the token that CORTEX_METRICS_TOKEN says: Authorization: Bearer …")
    elif not _is_local(request):
        raise Denied("Without CORTEX_METRICS_TOKEN, metrics are for programs on this machine only.")


def _is_local(request: Request) -> bool:
    """What a proxy on this machine passes on comes from elsewhere."""
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(address_of(request)).is_loopback
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    """Of one length, so that a comparison tells nothing of the token's."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
