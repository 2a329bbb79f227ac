"""`cortex worker`: runs an app's agents until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.errors import report
from cortex_plane.adapters.cli.options import OnlyDatabaseUrl
from cortex_plane.core.errors import InvalidInput

if TYPE_CHECKING:
    from cortex_plane.plane import Plane
    from cortex_plane.runtime.worker import WorkerOptions


def worker(
    app: Annotated[
        str | None,
        Parameter(help="The app that has the agents: file.py, file.py:plane or module:plane. Otherwise CORTEX_APP."),
    ] = None,
    /,
    *,
    queue: Annotated[
        tuple[str, ...],
        Parameter(metavar="NAME", help="A queue to work on; may be given again. Otherwise the queues of its agents."),
    ] = (),
    concurrency: Annotated[
        int | None, Parameter(metavar="N", help="How many jobs to run at a time. Otherwise CORTEX_CONCURRENCY, or 20.")
    ] = None,
    until_idle: Annotated[bool, Parameter(help="End when nothing is ready and nothing runs.")] = False,
    metrics_port: Annotated[
        int | None, Parameter(metavar="N", help="Answer for /metrics, /healthz and /readyz there, on CORTEX_HTTP_HOST.")
    ] = None,
    database_url: OnlyDatabaseUrl = None,
) -> int:
    """Run the agents of an app until you stop it.

    Ctrl-C or SIGTERM stops it in order: it takes no more jobs, gives those that run some time
    (CORTEX_GRACE_SECONDS), and hands back the rest. A second one ends it at once; its jobs are
    then rescued by other workers.

    Try:
        cortex worker examples/hello.py
        cortex worker shop.agents:plane --queue mail --queue reports --concurrency 5
        cortex worker examples/hello.py --until-idle
    """
    from cortex_plane.adapters.cli.apps import load_app
    from cortex_plane.adapters.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.adapters.event_loop import run

    if not all(name.strip() for name in queue):
        raise InvalidInput("--queue needs the name of a queue.", field="queue")
    plane = load_app(app, database_url)
    configure_logs(plane.settings)
    adopt_standard_logging(plane.settings)
    return run(_run(plane, queue, concurrency, until_idle, metrics_port))


async def _run(plane: Plane, queues: tuple[str, ...], concurrency: int | None, until_idle: bool, metrics_port: int | None) -> int:
    from cortex_plane.adapters.cli.stopping import Signals, end_now, something_goes_on

    options = plane._worker_options(queues or None, concurrency, "")
    store = await plane.store
    _say(plane, _greeting(plane, store.description, options))
    code = 0
    with Signals(lambda: _ask_to_stop(plane)) as signals:
        try:
            async with _watched(plane, metrics_port):
                await plane.run_worker(options.queues, concurrency=options.concurrency, until_idle=until_idle)
        except Exception as error:
            code = report(error)
        await plane.close()
        if await something_goes_on():
            _say(plane, "A handler did not stop when asked. Its job goes on elsewhere; this process ends now.")
            end_now(code)
    if code == 0:
        _say(plane, "Nothing is ready any more." if until_idle and not signals.heard else "Stopped in order.")
    return code


@asynccontextmanager
async def _watched(plane: Plane, port: int | None) -> AsyncIterator[None]:
    """Somebody who watches may ask how it goes, while it goes on."""
    if port is None:
        yield
        return
    from cortex_plane.adapters.cli.serve import listen
    from cortex_plane.adapters.http.watching import QuietServer, create_watching_app

    host = plane.settings.http_host
    listening = listen(host, port, "--metrics-port")
    server = QuietServer(create_watching_app(plane))
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="cortex-watching")
    _say(plane, f"  metrics   http://{host}:{listening.getsockname()[1]}/metrics")
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def _greeting(plane: Plane, database: str, options: WorkerOptions) -> str:
    agents = ", ".join(sorted(plane.agents))
    queues = ", ".join(options.queues)
    return (
        f"Ready for jobs, up to {options.concurrency} at a time. Ctrl-C stops in order; twice, at once.\n"
        f"  agents    {agents}\n  queues    {queues}\n  database  {database}"
    )


def _ask_to_stop(plane: Plane) -> None:
    _say(plane, f"Stopping. Jobs that run may take up to {plane.settings.grace_seconds:g} s more. Once more ends it at once.")
    plane.stop_workers()


def _say(plane: Plane, message: str) -> None:
    """For people; programs read the log."""
    import sys

    if not plane.settings.log_json:
        print(message, file=sys.stderr, flush=True)
