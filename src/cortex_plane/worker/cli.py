"""`cortex worker` and `cortex workers`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.errors import report
from cortex_plane.cli.hints import next_step
from cortex_plane.cli.output import console, one_line_each, words
from cortex_plane.cli.planes import AsJson, OnlyDatabaseUrl, PlaneUrl, Reason, existing_plane, me
from cortex_plane.cli.watch import watchable
from cortex_plane.clock import utc_now
from cortex_plane.durations import ago, rough
from cortex_plane.errors import InvalidInput
from cortex_plane.settings import load_settings

if TYPE_CHECKING:
    from cortex_plane.jobs.model import WorkerId
    from cortex_plane.plane import Plane
    from cortex_plane.worker.model import WorkerRecord
    from cortex_plane.worker.worker import WorkerOptions


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
    internal: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Do the plane's own work alone: notifications, webhooks, slots of schedules, groups. It needs no APP.",
        ),
    ] = False,
    metrics_port: Annotated[
        int | None, Parameter(metavar="N", help="Answer for /metrics, /healthz and /readyz there, on CORTEX_HTTP_HOST.")
    ] = None,
    database_url: OnlyDatabaseUrl = None,
) -> int:
    """Run the agents of an app until you stop it.

    Ctrl-C or SIGTERM stops it gracefully: it claims no more jobs, gives running jobs time to finish
    (CORTEX_GRACE_SECONDS), and hands back the rest. A second signal ends it at once; other workers
    then rescue its jobs.

    Try:
        cortex worker examples/hello.py
        cortex worker shop.agents:plane --queue mail --queue reports --concurrency 5
        cortex worker examples/hello.py --until-idle
        cortex worker --internal --database-url postgresql://host/plane
    """
    from cortex_plane.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.cli.planes import load_app
    from cortex_plane.event_loop import run
    from cortex_plane.extras import require_extra

    if not all(name.strip() for name in queue):
        raise InvalidInput("--queue needs the name of a queue.", field="queue")
    if metrics_port is not None:
        require_extra("server", "`cortex worker --metrics-port`")
    if internal and queue:
        raise InvalidInput("--internal works on no queue of yours. Leave out --queue, or leave out --internal.", field="queue")
    plane = _without_app(database_url) if internal and not (app or load_settings().app) else load_app(app, database_url)
    configure_logs(plane.settings)
    adopt_standard_logging(plane.settings)
    return run(_run(plane, queue, concurrency, until_idle, metrics_port, internal))


def _without_app(database_url: str | None) -> Plane:
    """The plane's own work needs no app."""
    from cortex_plane.cli.planes import refuse_a_server
    from cortex_plane.plane import Plane

    settings = load_settings({"database_url": database_url})
    refuse_a_server(settings, database_url)
    return Plane(settings.database_url)


async def _run(
    plane: Plane,
    queues: tuple[str, ...],
    concurrency: int | None,
    until_idle: bool,
    metrics_port: int | None,
    internal: bool,
) -> int:
    from cortex_plane.cli.stopping import StopSignals, end_now, something_goes_on

    others = threading.enumerate()
    options = plane._worker_options(queues or None, concurrency, "", internal=internal)
    store = plane.store
    _say(plane, _greeting(plane, store.description, options))
    code = 0
    with StopSignals(lambda: _ask_to_stop(plane)) as signals:
        try:
            async with _watched(plane, metrics_port):
                await plane.run_worker(queues or None, concurrency=concurrency, until_idle=until_idle, internal=internal)
        except Exception as error:
            code = report(error)
        await plane.close()
        if await something_goes_on(others):
            _say(plane, "A handler did not stop when asked. Another worker resumes its job; this process ends now.")
            end_now(code)
    if code == 0:
        _say(plane, "Nothing is ready any more." if until_idle and not signals.heard else "Stopped in order.")
    return code


@asynccontextmanager
async def _watched(plane: Plane, port: int | None) -> AsyncIterator[None]:
    """Serves /metrics, /healthz and /readyz on `port` while the worker runs."""
    if port is None:
        yield
        return
    from cortex_plane.cli.serve import listen
    from cortex_plane.http.embedded import QuietServer, create_watching_app

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
    if not options.queues:
        return (
            f"Ready for the plane's own work, up to {options.internal_concurrency} jobs at a time. "
            f"Ctrl-C stops in order; twice, at once.\n  database  {database}"
        )
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


# -- worker views ------------------------------------------------------------------------------
# How workers look in the terminal.


LOOKS = {
    "LIVE": ("●", "green"),
    "DRAINING": ("◐", "yellow"),
    "DRAINED": ("○", "bright_black"),
    "STOPPED": ("○", "bright_black"),
    "LOST": ("✗", "red"),
}


def print_workers(workers: Sequence[WorkerRecord], busy: Mapping[WorkerId, int], now: datetime) -> None:
    rows = []
    for worker in workers:
        symbol, colour = LOOKS[worker.standing]
        rows.append(
            [
                words(worker.id),
                words(worker.name),
                words(f"{symbol} {worker.standing}", colour),
                words(f"{busy.get(worker.id, 0)} of {worker.concurrency}"),
                words(ago(worker.heartbeat_at, now)),
                words(rough(now - worker.started_at)),
                words(_remark(worker)),
            ]
        )
    console().print(one_line_each(["ID", "NAME", "STATUS", "BUSY", "HEARD OF", "AGE", "WORKS ON"], rows, right=[3, 5]))


def _remark(worker: WorkerRecord) -> str:
    if worker.draining:
        by = f" by {worker.drain_asked_by}" if worker.drain_asked_by else ""
        return f"to be drained, asked{by}" + (f": {worker.drain_reason}" if worker.drain_reason else "")
    return f"{', '.join(worker.queues)}: {', '.join(worker.job_types)}"


# -- workers -----------------------------------------------------------------------------------
# `cortex workers`: lists workers on all machines, and drains them.


LONGEST_LIST = 1000


@watchable
async def list_workers(
    *,
    ended: Annotated[bool, Parameter(name="--all", help="Those that have ended, too.")] = False,
    limit: Annotated[int, Parameter(metavar="N", help=f"How many, up to {LONGEST_LIST}; otherwise 50.")] = 50,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List the workers that live: how busy each is, and when it was last heard of.

    Try:
        cortex workers list
        cortex workers list --all
    """
    from dataclasses import asdict

    from cortex_plane.cli.output import print_json
    from cortex_plane.jobs.states import WorkerStatus

    if not 1 <= limit <= LONGEST_LIST:
        raise InvalidInput(f"--limit must be from 1 to {LONGEST_LIST}, not {limit}.", field="limit")
    async with existing_plane(plane_url) as plane:
        found = await plane.workers.list(limit=limit)
        busy = await plane.workers.busy()
    workers = [worker for worker in found if ended or worker.status is WorkerStatus.LIVE]
    if as_json:
        print_json({"workers": [{**asdict(worker), "running": busy.get(worker.id, 0)} for worker in workers]})
    elif workers:
        print_workers(workers, busy, utc_now())
    else:
        next_step("No worker lives. To start one", "cortex worker APP", plane_url, style="")
    return 0


async def drain(
    worker: Annotated[str, Parameter(name="ID", help="The worker's id, the first part of it, or its name.")],
    /,
    *,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Ask a worker, wherever it runs, to finish what it has, take nothing more, and end.

    The worker receives the request with its next heartbeat, within a third of its lease, and stops as with SIGTERM: running
    jobs have CORTEX_GRACE_SECONDS to finish; the others move to another worker and use up no retry.

    Try:
        cortex workers drain 0199a8c2 --reason "the machine is replaced"
        cortex workers drain host-7:4242
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        changed = await plane.workers.drain(worker, actor=me(), reason=reason)
        found = await plane.workers.get(worker)
    if as_json:
        print_json({"id": found.id, "name": found.name, "changed": changed})
        return 0
    print(f"Asked {found.name} to finish what it has, and to end." if changed else f"{found.name} was asked already.")
    next_step("To watch it go", "cortex workers list --watch", plane_url)
    return 0
