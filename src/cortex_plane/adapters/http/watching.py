"""The doors of a process that serves no API, such as a worker: /metrics, /healthz and /readyz, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from uvicorn import Config, Server

from cortex_plane.adapters.http.errors import handle_errors
from cortex_plane.adapters.http.frame import ANY_HOST, Frame, Limits
from cortex_plane.adapters.http.routes import health, metrics
from cortex_plane.plane import Plane

LARGEST_BODY_BYTES = 1_024


def create_watching_app(plane: Plane) -> FastAPI:
    """Opened and closed with the plane by whoever runs it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.plane, app.state.duties, app.state.figures = plane, [], None
    handle_errors(app)
    app.include_router(health.router)
    app.include_router(metrics.router)
    app.add_middleware(Frame, limits=Limits({ANY_HOST}, LARGEST_BODY_BYTES), new_id=plane._ids)
    return app


class QuietServer(Server):
    """Beside something else that hears the signals."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(Config(app, log_config=None, access_log=False, server_header=False, lifespan="off"))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
