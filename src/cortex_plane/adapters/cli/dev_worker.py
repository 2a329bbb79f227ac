"""The worker of `cortex dev`: a process of its own, so that it can be killed and can load changed code.

starts ──▶ runs ──▶ a file changed: asked to stop, then started
                ──▶ killed: started at once
                ──▶ ended by itself: its code is broken, so wait for a change
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping

from cortex_plane.adapters.cli.orphans import PROGRAM
from cortex_plane.adapters.cli.watched_files import folder_of, snapshot

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
