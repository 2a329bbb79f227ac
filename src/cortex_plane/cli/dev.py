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
    """Where APP has its code: the folder of its file, or of its module."""
    place, colon, attribute = app.rpartition(":")
    named = place if colon and place and not set("/\\") & set(attribute) else app
    if named.endswith(".py") or "/" in named or "\\" in named:
        return Path(named).resolve().parent
    spec = find_spec(named)
    return Path(spec.origin).parent if spec is not None and spec.origin else Path.cwd()


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """When each Python file in a folder was changed, and its size; of very many files, the first that are found."""
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
        return {}  # It is just being written.
    return {path: (status.st_mtime_ns, status.st_size)}


# -- orphans -----------------------------------------------------------------------------------
# A process that ends when the one that started it is gone, however that came about: by a pipe that nobody writes to.
#
# The parent holds one end of the pipe and does nothing with it. When it dies, even by SIGKILL, the system closes that end.


LAST_SECONDS = 10.0
EXIT_ORPHANED = 128 + signal.SIGTERM

# What the parent runs: the descriptor of the pipe's other end, then the words of the command.
PROGRAM = "import sys; from cortex_plane.cli.dev import main; sys.exit(main(sys.argv[1:]))"


def main(arguments: Sequence[str]) -> int:
    from cortex_plane.cli.main import main as cortex

    descriptor, *words = arguments
    sys.argv = ["cortex", *words]
    end_with(int(descriptor))
    return cortex(words)


def end_with(descriptor: int) -> None:
    """From now on the end of the pipe's other side is a SIGTERM for this process; and what has not ended soon after, ends."""
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch, args=(descriptor,), name="cortex-orphan-watch", daemon=True).start()


def _watch(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(EXIT_ORPHANED)


# -- dev worker --------------------------------------------------------------------------------
# The worker of `cortex dev`: a process of its own, so that it can be killed and can load changed code.
#
# starts ──▶ runs ──▶ a file changed: asked to stop, then started
#                 ──▶ killed: started at once
#                 ──▶ ended by itself: its code is broken, so wait for a change


LOOK_SECONDS = 0.5
GRACE_SECONDS = 10.0
LEASE_SECONDS = "3"
"""Short, so that whoever kills the worker does not wait long for the resume. A lease that was set stays."""


class DevWorker:
    def __init__(self, app: str, database_url: str | None = None) -> None:
        self._app, self._database_url = app, database_url
        self.environment: Mapping[str, str] = {}
        """What it is told beside the environment of this process."""
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
        """Until it is stopped, there is a worker, or a reason why not was told."""
        seen = snapshot(self._folder)
        while not self._stopping.is_set():
            process = self._process = await self._start()
            changed = await self._until_it_ends(process, seen)
            await self._end(process)
            if self._stopping.is_set():
                return
            if changed:
                say("A file changed: starting the worker anew.")
            elif self._killed:
                self._killed = False
                say("The worker was killed: starting another.")
            else:
                say("The worker ended by itself. It is started again when a file changes.")
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
            # In a session of its own: Ctrl-C reaches us, and we pass it on once. If we are killed, it ends by itself.
            return await asyncio.create_subprocess_exec(*words, env=environment, start_new_session=True, pass_fds=[theirs])
        finally:
            os.close(theirs)

    def _let_go(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    async def _until_it_ends(self, process: Process, seen: dict[str, tuple[int, int]]) -> bool:
        """Whether it is to end because a file changed."""
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
    """As a worker names itself."""
    return f"{socket.gethostname()}:{process.pid}"


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


# -- dev ---------------------------------------------------------------------------------------
# `cortex dev`: an app, its dashboard and a worker on this machine; the worker is started anew when the app's files change.


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
    from cortex_plane.cli.logs import adopt_standard_logging, configure_logs
    from cortex_plane.cli.planes import load_app
    from cortex_plane.event_loop import run
    from cortex_plane.extras import require_extra
    from cortex_plane.settings import load_settings, on_port

    require_extra("server", "`cortex dev`")
    plane = load_app(app, database_url)
    http_port = plane.settings.http_port if port is None else port
    plane.settings = on_port(plane.settings, http_port, http_host=HOST, secure_cookies=False)
    # What a browser asks for every two seconds is no news; what the worker does is told by the worker.
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

    await plane.open()  # The worker must not be the one to make the database: two at once would get in each other's way.
    _greet(link.address(f"http://{HOST}:{listening.getsockname()[1]}"), plane.store.description)
    with StopSignals(stop):
        working = asyncio.create_task(worker.run(), name="cortex-dev-worker")
        await server.serve(sockets=[listening])
        worker.stop()
        await working
    await plane.close()
    return 0


def _own_service(plane: Plane, port: int) -> dict[str, str]:
    """This server executes what schedules start. The worker is told where it is, and the secret, which dies with us."""
    from cortex_plane.http.embedded import make_secret

    make_secret(plane)
    known = {"CORTEX_INTERNAL_API_URL": f"http://{HOST}:{port}", "CORTEX_INTERNAL_API_TOKEN": plane.settings.internal_api_token}
    return {name: value for name, value in known.items() if value}


def _greet(link: str, database: str) -> None:

    say(f"The dashboard, signed in, once:\n\n    {link}\n\nDatabase: {database}. Ctrl-C stops.")
