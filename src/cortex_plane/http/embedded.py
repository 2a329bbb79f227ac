"""A plane that serves its own execution API in this process, and the metrics server of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from secrets import token_urlsafe

from fastapi import FastAPI
from uvicorn import Config, Server

from cortex_plane.http import health
from cortex_plane.http.app import create_app
from cortex_plane.http.middleware import ANY_HOST, Frame, Limits, patient_for
from cortex_plane.http.problems import handle_errors
from cortex_plane.http.routers import add_routes
from cortex_plane.metrics import http as metrics
from cortex_plane.plane import Plane


def serve_itself(plane: Plane) -> FastAPI:
    """The plane's application, through which its own workers then speak. To be called before the plane is opened; a secret is
    made if there is none, and dies with the process."""
    make_secret(plane)
    app = create_app(plane)
    plane.execution_app = app
    return app


def make_secret(plane: Plane) -> None:
    """By which those who call its execution service are known, unless the settings have one."""
    settings = plane.settings
    if not settings.internal_api_token and not settings.internal_jwt_secret:
        plane.settings = replace(settings, internal_api_token=token_urlsafe(32))


# -- watching ----------------------------------------------------------------------------------
# The doors of a process that serves no API, such as a worker: /metrics, /healthz and /readyz, and nothing else.


LARGEST_BODY_BYTES = 1_024
HEADER_SECONDS = 10.0


def create_watching_app(plane: Plane) -> FastAPI:
    """Opened and closed with the plane by whoever runs it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.plane, app.state.loops, app.state.figures, app.state.proxies = plane, [], None, ()
    handle_errors(app)
    add_routes(app, health.router)
    add_routes(app, metrics.router)
    app.add_middleware(Frame, limits=Limits({ANY_HOST}, LARGEST_BODY_BYTES), new_id=plane._ids)
    return app


class QuietServer(Server):
    """Beside something else that hears the signals."""

    def __init__(self, app: FastAPI) -> None:
        http = patient_for(HEADER_SECONDS)
        config = Config(
            app, http=http, proxy_headers=False, log_config=None, access_log=False, server_header=False, lifespan="off"
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
