"""`cortex serve`: serves the HTTP API and the dashboard."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.planes import App, OnlyDatabaseUrl
from cortex_plane.errors import Denied, Unavailable

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


NO_CREDENTIALS = (
    "Nobody could sign in: there is no API key, and no user with a password and a role. To create one:\n"
    "  cortex keys add NAME --role admin\n"
    "  cortex users add NAME --role admin"
)


def serve(
    app: App = None,
    /,
    *,
    host: Annotated[str | None, Parameter(metavar="ADDRESS", help="Address to listen on (default: CORTEX_HTTP_HOST).")] = None,
    port: Annotated[int | None, Parameter(metavar="N", help="Port to listen on (default: CORTEX_HTTP_PORT, or 8700).")] = None,
    database_url: OnlyDatabaseUrl = None,
) -> int:
    """Serve the HTTP API and the dashboard until you stop it.

    Listens on this machine only. To listen on other addresses, pass --host and set CORTEX_ALLOWED_HOSTS.
    An app is optional: the server uses its settings and channels, and does not run its agents.

    Try:
        cortex serve
        cortex serve --host 0.0.0.0 --port 80
    """
    from cortex_plane.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.cli.planes import load_app, refuse_a_server
    from cortex_plane.event_loop import run
    from cortex_plane.extras import require_extra
    from cortex_plane.plane import Plane
    from cortex_plane.settings import load_settings, on_port

    require_extra("server", "`cortex serve`")
    asked = {"database_url": database_url, "http_host": host, "http_port": port}
    settings = load_settings(asked)
    if app or settings.app:
        plane = load_app(app, database_url)
        plane.settings = on_port(plane.settings, settings.http_port, http_host=settings.http_host)
    else:
        refuse_a_server(settings, database_url)
        plane = Plane(settings=settings)
    configure_logs(plane.settings)
    adopt_standard_logging(plane.settings)
    return run(_serve(plane))


async def _serve(plane: Plane) -> int:
    from uvicorn import Config, Server

    from cortex_plane.dashboard.app import create_dashboard
    from cortex_plane.http.middleware import patient_for
    from cortex_plane.settings import on_port

    if not await plane.access.somebody_can_get_in():
        await plane.close()
        raise Denied(NO_CREDENTIALS)
    settings = plane.settings
    listening = listen(settings.http_host, settings.http_port, "--host and --port")
    plane.settings = on_port(settings, listening.getsockname()[1])
    config = Config(
        create_dashboard(plane),
        http=patient_for(settings.http_header_timeout_seconds),
        proxy_headers=False,  # See CORTEX_TRUSTED_PROXIES; uvicorn would let programs on this machine choose their address.
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
    where = f"{settings.http_host}:{listening.getsockname()[1]}"
    _say(plane, f"Serving on http://{where}, API reference: http://{where}/docs. Press Ctrl-C to stop.")
    warn_of_links(plane, listening.getsockname()[1])
    await Server(config).serve(sockets=[listening])
    await plane.close()
    return 0


def listen(host: str, port: int, options: str) -> socket.socket:
    """Binds the socket before anything is printed, with a clear error if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # Connections during start-up wait instead of being refused.
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another address with {options}."
        ) from None
    return listening


def warn_of_links(plane: Plane, port: int) -> None:
    import structlog

    from cortex_plane.approvals.views import problem_with_links

    settings = plane.settings
    if problem := problem_with_links(settings.public_url, port, messages_go_out=settings.sends_messages or bool(plane.channels)):
        what, do = problem
        structlog.get_logger().warning("links_cannot_work", problem=what, do=do)


def _say(plane: Plane, message: str) -> None:
    """Prints a message for people. With CORTEX_LOG_JSON, programs read the log instead."""
    if not plane.settings.log_json:
        print(message, file=sys.stderr, flush=True)
