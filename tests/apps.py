"""Applications for tests: their routes are made once for each process, and then serve one plane after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from cortex_plane.dashboard.app import create_dashboard
from cortex_plane.http.app import create_app, serve
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings

_made: dict[Any, FastAPI] = {}


def app_of(plane: Plane, settings: Settings | None = None) -> FastAPI:
    return _served(create_app, plane, settings or plane.settings)


def dashboard_of(plane: Plane) -> FastAPI:
    return _served(create_dashboard, plane, plane.settings)


def _served(make: Callable[[Plane, Settings], FastAPI], plane: Plane, settings: Settings) -> FastAPI:
    """Only what the plane says may differ: the frame around the routes is the one of the first settings."""
    frame = (make, settings.http_host, settings.allowed_hosts, settings.secure_cookies, settings.http_body_limit_bytes)
    if frame not in _made:
        _made[frame] = make(plane, settings)
    serve(_made[frame], plane, settings)
    return _made[frame]
