"""The application: `create_app(plane)` is an ASGI app that any server can run, in any number of processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.gzip import GZipMiddleware

from cortex_plane.grants.http import service_keys
from cortex_plane.http import docs
from cortex_plane.http.auth import anybody
from cortex_plane.http.middleware import ANY_HOST, Frame, Limits, host_name
from cortex_plane.http.openapi import describe
from cortex_plane.http.problems import handle_errors
from cortex_plane.http.redaction import hide_tokens_of_the_server
from cortex_plane.http.routers import add_routes, mount, served_by
from cortex_plane.http.streams import Admissions, OpenStreams
from cortex_plane.http_client import networks
from cortex_plane.metrics import http as metrics
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.worker.loops import BackgroundLoop

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
SWEEP_SECONDS = 120.0
GZIP_FROM_BYTES = 1_000


def create_app(
    plane: Plane, settings: Settings | None = None, *, extend: Callable[[FastAPI], None] = lambda _app: None
) -> FastAPI:
    """The plane is opened when the app starts and closed when it stops. `extend` may add routes of its own."""
    settings = settings or plane.settings
    app = FastAPI(version=_version(), docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, lifespan=_lifespan)
    serve(app, plane, settings)
    hide_tokens_of_the_server()
    handle_errors(app)
    add_routes(app, docs.router)
    mount(app)
    _serve_description(app)
    extend(app)
    _refuse_undeclared(app)
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM_BYTES)
    limits = Limits(
        accepted_hosts(settings), settings.http_body_limit_bytes, settings.secure_cookies, settings.http_body_timeout_seconds
    )
    app.add_middleware(Frame, limits=limits, new_id=plane._ids)
    return app


def serve(app: FastAPI, plane: Plane, settings: Settings) -> None:
    """Says which plane the routes of an app are about. Its routes take long to make; what they are about does not."""
    app.state.plane, app.state.secure = plane, settings.secure_cookies
    app.state.service_keys = service_keys(settings)
    app.state.proxies = networks(settings.trusted_proxies, "trusted_proxies")
    app.state.streams = OpenStreams(settings.http_streams, settings.http_streams_per_caller)
    app.state.figures = metrics.KeptFigures()
    app.state.admissions = Admissions()
    app.state.loops = [BackgroundLoop("sweeper", partial(_sweep, plane), plane.clock)]


def accepted_hosts(settings: Settings) -> set[str]:
    named = [host_name(host) for host in settings.allowed_hosts.split(",") if host.strip()]
    return {ANY_HOST} if ANY_HOST in named else {*LOCAL_HOSTS, *named, host_name(settings.http_host)}


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.plane:
        loops = [asyncio.create_task(loop.run(), name=f"cortex-{loop.name}") for loop in app.state.loops]
        try:
            yield
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)


async def _sweep(plane: Plane) -> float:
    """What has expired is of no use to anybody; that it is still there harms nobody either."""
    await plane.store.http.sweep()
    return SWEEP_SECONDS


def _serve_description(app: FastAPI) -> None:
    describe(app)

    @app.get("/openapi.json", include_in_schema=False, dependencies=[anybody])
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())


def _refuse_undeclared(app: FastAPI) -> None:
    """A route that does not say who may call it is not served at all."""
    silent = [route.path for route in served_by(app) if route.requirement is None]
    if silent:
        raise AssertionError(f"These routes do not say who may call them: {', '.join(silent)}. Use require(...) or anybody.")


def _version() -> str:
    from cortex_plane import __version__

    return __version__
