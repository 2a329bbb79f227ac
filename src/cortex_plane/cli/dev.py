"""`cortex dev`: server, dashboard and worker in one command, restarted when files change."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from asyncio.subprocess import Process
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.planes import OnlyDatabaseUrl

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "venv"}
MOST = 5_000


def folder_of(app: str) -> Path:
    """The folder of the file or module of APP."""
    place, colon, attribute = app.rpartition(":")
    named = place if colon and place and not set("/\\") & set(attribute) else app
    if named.endswith(".py") or "/" in named or "\\" in named:
        return Path(named).resolve().parent
    spec = find_spec(named)
    return Path(spec.origin).parent if spec is not None and spec.origin else Path.cwd()


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """The modification time and size of each Python file in a folder, for at most about 5,000 files."""
    found: dict[str, tuple[int, int]] = {}
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".py"):
                found |= _state(os.path.join(where, name))
        if len(found) >= MOST:
            break
    return found


def _state(path: str) -> dict[str, tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return {}  # The file is being replaced.
    return {path: (status.st_mtime_ns, status.st_size)}


# -- orphans -----------------------------------------------------------------------------------
# The worker process exits when its parent is gone. The parent holds the write end of a pipe; when the parent dies, even by
# SIGKILL, the system closes that end, and the worker's read returns.


LAST_SECONDS = 10.0
EXIT_ORPHANED = 128 + signal.SIGTERM

# The program of the worker process. Its arguments: the descriptor of the pipe, then the words of the command.
PROGRAM = "import sys; from cortex_plane.cli.dev import main; sys.exit(main(sys.argv[1:]))"


def main(arguments: Sequence[str]) -> int:
    from cortex_plane.cli.main import main as cortex

    descriptor, *words = arguments
    sys.argv = ["cortex", *words]
    end_with(int(descriptor))
    return cortex(words)


def end_with(descriptor: int) -> None:
    """Sends SIGTERM to this process when the pipe is closed, and exits some seconds later."""
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch, args=(descriptor,), name="cortex-orphan-watch", daemon=True).start()


def _watch(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(EXIT_ORPHANED)


# -- dev worker --------------------------------------------------------------------------------
# The worker of `cortex dev` is a separate process, so that it can be killed and can load changed code.
#
# starts ──▶ runs ──▶ a file changed: stopped gracefully, then restarted
#                 ──▶ killed: restarted at once
#                 ──▶ exited: its code is broken, so wait for a change


LOOK_SECONDS = 0.5
GRACE_SECONDS = 10.0
LEASE_SECONDS = "3"
"""Short, so that jobs resume soon after the worker was killed. CORTEX_LEASE_SECONDS overrides it."""


class DevWorker:
    def __init__(self, app: str, database_url: str | None = None) -> None:
        self._app, self._database_url = app, database_url
        self.environment: Mapping[str, str] = {}
        """Variables for the worker in addition to the environment of this process."""
        self._lifeline: int | None = None
        self._folder = folder_of(app)
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._killed = False

    # -- the workshop of the dashboard -----------------------------------------------------------

    def has(self, worker_name: str) -> bool:
        return self._process is not None and self._process.returncode is None and worker_name == _name(self._process)

    def kill(self, worker_name: str) -> bool:
        if not self.has(worker_name) or self._process is None:
            return False
        self._killed = True
        self._process.kill()
        return True

    # -- running ---------------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Keeps a worker running until `stop()`. A worker that exits is restarted when a file changes."""
        seen = snapshot(self._folder)
        while not self._stopping.is_set():
            process = self._process = await self._start()
            changed = await self._until_it_ends(process, seen)
            await self._end(process)
            if self._stopping.is_set():
                return
            if changed:
                say("A file changed: restarting the worker.")
            elif self._killed:
                self._killed = False
                say("The worker was killed: starting another.")
            else:
                say("The worker exited. It is restarted when a file changes.")
                await self._until_a_change(seen)
            seen = snapshot(self._folder)

    async def _start(self) -> Process:
        self._let_go()
        theirs, self._lifeline = os.pipe()
        words = [sys.executable, "-c", PROGRAM, str(theirs), "worker", self._app]
        if self._database_url is not None:
            words += ["--database-url", self._database_url]
        environment = {"CORTEX_LEASE_SECONDS": LEASE_SECONDS, **os.environ, **self.environment}
        try:
            # In its own session: Ctrl-C reaches this process only, which stops the worker.
            return await asyncio.create_subprocess_exec(*words, env=environment, start_new_session=True, pass_fds=[theirs])
        finally:
            os.close(theirs)

    def _let_go(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    async def _until_it_ends(self, process: Process, seen: dict[str, tuple[int, int]]) -> bool:
        """Whether the worker has to be restarted because a file changed."""
        while process.returncode is None and not self._stopping.is_set():
            await self._pause()
            if snapshot(self._folder) != seen:
                return True
        return False

    async def _until_a_change(self, seen: dict[str, tuple[int, int]]) -> None:
        while not self._stopping.is_set() and snapshot(self._folder) == seen:
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _end(self, process: Process) -> None:
        if process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        finally:
            self._let_go()


def _name(process: Process) -> str:
    """The default name of a worker."""
    return f"{socket.gethostname()}:{process.pid}"


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


# -- dev ---------------------------------------------------------------------------------------
# `cortex dev`: an app, its dashboard and a worker on this machine. The worker restarts when the app's files change.


HOST = "127.0.0.1"


def dev(
    app: Annotated[
        str | None,
        Parameter(help="The app with the agents: file.py, file.py:plane or module:plane (default: CORTEX_APP)."),
    ] = None,
    /,
    *,
    port: Annotated[
        int | None,
        Parameter(metavar="N", help="Port to listen on; 0 for any free port (default: CORTEX_HTTP_PORT, or 8700)."),
    ] = None,
    database_url: OnlyDatabaseUrl = None,
) -> int:
    """Run an app, a worker and the dashboard on this machine, and restart the worker when files change.

    Prints a link that signs in one browser. The page of workers has a button that kills the worker,
    to see its jobs resume.

    Try:
        cortex dev examples/release.py
        cortex dev shop.agents:plane --port 9000
    """
    from cortex_plane.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.cli.planes import load_app
    from cortex_plane.event_loop import run
    from cortex_plane.extras import require_extra
    from cortex_plane.settings import load_settings, on_port

    require_extra("server", "`cortex dev`")
    plane = load_app(app, database_url)
    http_port = plane.settings.http_port if port is None else port
    plane.settings = on_port(plane.settings, http_port, http_host=HOST, secure_cookies=False)
    # Warnings only: the browser polls every two seconds, and the worker writes its own log.
    quiet = replace(plane.settings, log_level="warning")
    configure_logs(quiet)
    adopt_standard_logging(quiet)
    worker = DevWorker(app or load_settings().app, database_url)
    return run(_serve(plane, worker))


async def _serve(plane: Plane, worker: DevWorker) -> int:
    from secrets import token_bytes

    from uvicorn import Config, Server

    from cortex_plane.cli.serve import listen
    from cortex_plane.cli.stopping import StopSignals
    from cortex_plane.dashboard.app import create_dashboard
    from cortex_plane.dashboard.live import FirstLink
    from cortex_plane.settings import on_port

    class ServerWithoutSignals(Server):
        """Installs no signal handlers: StopSignals handles signals, because the worker must stop too."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    listening = listen(HOST, plane.settings.http_port, "--port")
    plane.settings = on_port(plane.settings, listening.getsockname()[1])
    if not plane.settings.internal_api_url:
        worker.environment = _own_service(plane, plane.settings.http_port)
    worker.environment = {**worker.environment, "CORTEX_PUBLIC_URL": plane.settings.public_url}
    link = FirstLink(token_bytes(32))
    app = create_dashboard(plane, first_link=link, workshop=worker)
    config = Config(
        app,
        proxy_headers=False,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        lifespan="on",
    )
    server = ServerWithoutSignals(config)

    def stop() -> None:
        server.should_exit = True
        worker.stop()

    await plane.open()  # Creates the database before the worker starts, so that they do not do it concurrently.
    _greet(link.address(f"http://{HOST}:{listening.getsockname()[1]}"), plane.store.description)
    with StopSignals(stop):
        working = asyncio.create_task(worker.run(), name="cortex-dev-worker")
        await server.serve(sockets=[listening])
        worker.stop()
        await working
    await plane.close()
    return 0


def _own_service(plane: Plane, port: int) -> dict[str, str]:
    """Variables with the address and secret of this server, which is the worker's execution service for schedules."""
    from cortex_plane.http.embedded import make_secret

    make_secret(plane)
    known = {"CORTEX_INTERNAL_API_URL": f"http://{HOST}:{port}", "CORTEX_INTERNAL_API_TOKEN": plane.settings.internal_api_token}
    return {name: value for name, value in known.items() if value}


def _greet(link: str, database: str) -> None:

    say(f"Dashboard (this link signs in once):\n\n    {link}\n\nDatabase: {database}. Press Ctrl-C to stop.")
