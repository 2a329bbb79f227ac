"""A plane that is its own execution service: what its schedules start goes through the HTTP API, without a network."""

from __future__ import annotations

from dataclasses import replace
from secrets import token_urlsafe

from fastapi import FastAPI

from cortex_plane.adapters.http.app import create_app
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
