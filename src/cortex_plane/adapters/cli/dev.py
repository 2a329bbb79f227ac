"""`cortex dev`: an app, its dashboard and a worker on this machine; the worker is started anew when the app's files change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.options import OnlyDatabaseUrl

if TYPE_CHECKING:
    from cortex_plane.adapters.cli.dev_worker import DevWorker
    from cortex_plane.plane import Plane

HOST = "127.0.0.1"


def dev(
    app: Annotated[
        str | None,
        Parameter(help="The app that has the agents: file.py, file.py:plane or module:plane. Otherwise CORTEX_APP."),
    ] = None,
    /,
    *,
    port: Annotated[
        int | None,
        Parameter(metavar="N", help="On which port; 0 takes any that is free. Otherwise CORTEX_HTTP_PORT, or 8700."),
    ] = None,
    database_url: OnlyDatabaseUrl = None,
) -> int:
    """Run an app with its dashboard on this machine, and start it anew when its files change.

    Prints a link that signs one browser in. The worker is a process of its own: the page of
    workers has a button that kills it, to see its jobs resume.

    Try:
        cortex dev examples/release.py
        cortex dev shop.agents:plane --port 9000
    """
    from cortex_plane.adapters.cli.apps import load_app
    from cortex_plane.adapters.cli.dev_worker import DevWorker
    from cortex_plane.adapters.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.adapters.event_loop import run
    from cortex_plane.settings import load_settings

    plane = load_app(app, database_url)
    http_port = plane.settings.http_port if port is None else port
    plane.settings = replace(plane.settings, http_host=HOST, http_port=http_port, http_secure=False)
    # What a browser asks for every two seconds is no news; what the worker does is told by the worker.
    quiet = replace(plane.settings, log_level="warning")
    configure_logs(quiet)
    adopt_standard_logging(quiet)
    worker = DevWorker(app or load_settings().app, database_url)
    return run(_serve(plane, worker))


async def _serve(plane: Plane, worker: DevWorker) -> int:
    from secrets import token_bytes

    from uvicorn import Config, Server

    from cortex_plane.adapters.cli.serve import listen
    from cortex_plane.adapters.cli.stopping import Signals
    from cortex_plane.adapters.dashboard.app import create_dashboard
    from cortex_plane.adapters.dashboard.first_link import FirstLink

    class ServerWithoutSignals(Server):
        """Signals are heard here: the worker must be stopped too."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    listening = listen(HOST, plane.settings.http_port, "--port")
    if not plane.settings.internal_api_url:
        worker.environment = _own_service(plane, listening.getsockname()[1])
    link = FirstLink(token_bytes(32))
    app = create_dashboard(plane, first_link=link, workshop=worker)
    config = Config(app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=1, lifespan="on")
    server = ServerWithoutSignals(config)

    def stop() -> None:
        server.should_exit = True
        worker.stop()

    await plane.store  # The worker must not be the one to make the database: two at once would get in each other's way.
    _greet(link.address(f"http://{HOST}:{listening.getsockname()[1]}"), (await plane.store).description)
    with Signals(stop):
        working = asyncio.create_task(worker.run(), name="cortex-dev-worker")
        await server.serve(sockets=[listening])
        worker.stop()
        await working
    await plane.close()
    return 0


def _own_service(plane: Plane, port: int) -> dict[str, str]:
    """This server executes what schedules start. The worker is told where it is, and the secret, which dies with us."""
    from cortex_plane.adapters.http.itself import make_secret

    make_secret(plane)
    known = {"CORTEX_INTERNAL_API_URL": f"http://{HOST}:{port}", "CORTEX_INTERNAL_API_TOKEN": plane.settings.internal_api_token}
    return {name: value for name, value in known.items() if value}


def _greet(link: str, database: str) -> None:
    from cortex_plane.adapters.cli.dev_worker import say

    say(f"The dashboard, signed in, once:\n\n    {link}\n\nDatabase: {database}. Ctrl-C stops.")
