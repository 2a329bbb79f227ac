"""`cortex serve`: the HTTP API and the dashboard, until it is told to stop."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.options import App, OnlyDatabaseUrl
from cortex_plane.core.errors import Denied, Unavailable

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

NOBODY_GETS_IN = (
    "Nobody could get in: there is no API key, and no user with a password and a role. To make one:\n"
    "  cortex keys add NAME --role admin\n"
    "  cortex users add NAME --role admin"
)


def serve(
    app: App = None,
    /,
    *,
    host: Annotated[str | None, Parameter(metavar="ADDRESS", help="Where to listen. Otherwise CORTEX_HTTP_HOST.")] = None,
    port: Annotated[int | None, Parameter(metavar="N", help="On which port. Otherwise CORTEX_HTTP_PORT, or 8700.")] = None,
    database_url: OnlyDatabaseUrl = None,
) -> int:
    """Serve the HTTP API and the dashboard until you stop it.

    It listens on this machine only, unless --host says otherwise; then name the hosts that it
    answers for in CORTEX_HTTP_HOSTS. An app is needed only for what its code does, not to serve.

    Try:
        cortex serve
        cortex serve --host 0.0.0.0 --port 80
    """
    from cortex_plane.adapters.cli.apps import load_app
    from cortex_plane.adapters.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.adapters.cli.planes import refuse_a_server
    from cortex_plane.adapters.event_loop import run
    from cortex_plane.plane import Plane
    from cortex_plane.settings import load_settings

    asked = {"database_url": database_url, "http_host": host, "http_port": port}
    settings = load_settings(asked)
    if app or settings.app:
        plane = load_app(app, database_url)
        plane.settings = replace(plane.settings, http_host=settings.http_host, http_port=settings.http_port)
    else:
        refuse_a_server(settings, database_url)
        plane = Plane(settings=settings)
    configure_logs(plane.settings)
    adopt_standard_logging(plane.settings)
    return run(_serve(plane))


async def _serve(plane: Plane) -> int:
    from uvicorn import Config, Server

    from cortex_plane.adapters.dashboard.app import create_dashboard

    if not await plane.access.somebody_can_get_in():
        await plane.close()
        raise Denied(NOBODY_GETS_IN)
    settings = plane.settings
    listening = listen(settings.http_host, settings.http_port, "--host and --port")
    config = Config(
        create_dashboard(plane),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
    where = f"{settings.http_host}:{listening.getsockname()[1]}"
    _say(plane, f"Serving on http://{where}, described at http://{where}/docs. Ctrl-C stops.")
    await Server(config).serve(sockets=[listening])
    await plane.close()
    return 0


def listen(host: str, port: int, options: str) -> socket.socket:
    """Before anything is said: a port that is taken is better told in our words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # Whoever comes before all is ready waits instead of being sent away.
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"{host}:{port} cannot be listened on: {error.strerror or error}. Choose another with {options}."
        ) from None
    return listening


def _say(plane: Plane, message: str) -> None:
    """For people; programs read the log."""
    if not plane.settings.log_json:
        print(message, file=sys.stderr, flush=True)
