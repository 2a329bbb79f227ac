"""Runs a suspected job in its own process, so that a crash ends only that process.

worker                                     process of the run
──────                                     ──────────────────
keeps the lease, watches for cancellation
what to open, and which run ──────────▶    opens the app and a store of its own
how long the lease holds, each time ──▶    begins no tool call when it does not
a pipe that is open while it lives ───▶    ends when that is closed: it never outlives its worker
the job is asked to end, and why ─────▶    lets its handler clean up
its worker stops soon ────────────────▶    says so to the handler: `ctx.stopping`
interrupted, superseded ──────────────▶    ends its handler
                    ◀── "started"          calls the handler; writes checkpoints and outcome itself, under the same run id
exit code 0: the outcome is written
anything else after "started": the job has killed its process, and that is proved
SIGTERM before: whoever stops the worker stops all of its processes; the job goes on elsewhere
anything else before: it could not be opened there, so it runs here
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from cortex_plane.jobs.outcomes import Interrupted, Outcome
from cortex_plane.json import dumps
from cortex_plane.worker.execution import Execution, uncancel
from cortex_plane.worker.reporter import current_run

if TYPE_CHECKING:
    from cortex_plane.jobs.model import Claimed, WorkerId

log = structlog.get_logger()

MODULE = "cortex_plane.worker.isolated"
STARTED = b"started"
LEASE = "lease"
ASKED_TO_END = "asked_to_end"
STOPPING = "stopping"
TELL_OF_LEASE_SECONDS = 0.1
PATIENCE_SECONDS = 5.0
SUPERSEDED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Isolation:
    """How another process opens this plane."""

    app: str
    settings: dict[str, Any]

    def opening(self, worker_id: WorkerId, claimed: Claimed, trusted_until: float) -> bytes:
        told = {
            "app": self.app,
            "settings": self.settings,
            "path": [str(folder) for folder in sys.path],
            "worker_id": worker_id,
            "run_id": claimed.run_id,
            "trusted_until": trusted_until,
        }
        return dumps(told).encode() + b"\n"


class IsolatedExecution(Execution):
    """`trusted_until` returns how long the worker's lease is valid; `died` is called when the process of the run has died,
    with the reason."""

    def isolate(
        self,
        isolation: Isolation,
        worker_id: WorkerId,
        trusted_until: Callable[[], float],
        died: Callable[[Claimed, str], Awaitable[None]],
    ) -> None:
        self._isolation, self._worker_id, self._died = isolation, worker_id, died
        self._trusted_until = trusted_until
        self._process: Process | None = None
        self._runs_here = False

    @property
    def may_clean_up(self) -> bool:
        """While the run is not in this process, only its own process knows."""
        return super().may_clean_up if self._runs_here else True

    def ask_to_end(self, request: Mapping[str, Any]) -> None:
        """Repeated at every poll of the database: a handler without an open scope may open one."""
        if self._runs_here:
            super().ask_to_end(request)
        else:
            self._request = request  # Should the handler have to be called here after all.
            self._tell(f"{ASKED_TO_END} {dumps(request)}")

    def stops_soon(self) -> None:
        super().stops_soon()
        self._tell(STOPPING)

    async def run(self) -> Outcome | None:
        current_run.set(self.claimed)
        reading, writing = os.pipe()
        try:
            process = await self._started(writing)
            try:
                await self._until_it_ends(process)
            finally:
                os.set_blocking(reading, False)
        except OSError as error:
            return await self._run_here(f"{type(error).__name__}: {error}")
        else:
            return await self._ended(process, _read(reading) == STARTED)
        finally:
            os.close(reading)

    async def _started(self, marker: int) -> Process:
        log.warning("suspect_isolated", job_id=self.claimed.job_id, agent=self.claimed.job_type, crashes=self.claimed.crash_count)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                str(marker),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=[marker],
                start_new_session=True,
            )
        finally:
            os.close(marker)
        assert process.stdin is not None
        self._told = self._trusted_until()
        process.stdin.write(self._isolation.opening(self._worker_id, self.claimed, self._told))
        self._process = process
        return process

    def _tell(self, order: str) -> None:
        """Sends one line. A process that has ended receives nothing; a process that has not started reads the job's row
        itself."""
        stdin = None if self._process is None else self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(f"{order}\n".encode())

    async def _until_it_ends(self, process: Process) -> None:
        ending = asyncio.ensure_future(process.wait())
        while not ending.done():
            try:
                await asyncio.wait([ending], timeout=TELL_OF_LEASE_SECONDS)
                self._tell_of_lease()
            except asyncio.CancelledError:
                uncancel()
                await self._end(process, ending)

    def _tell_of_lease(self) -> None:
        if (until := self._trusted_until()) != self._told:
            self._told = until
            self._tell(f"{LEASE} {until!r}")

    async def _end(self, process: Process, ending: asyncio.Future[int]) -> None:
        """The handler is interrupted, and gets a moment to write its final checkpoint."""
        why = self._ending or "interrupted"
        self._tell(why)
        await asyncio.wait([ending], timeout=SUPERSEDED_SECONDS if why == "superseded" else PATIENCE_SECONDS)
        if not ending.done():
            _kill(process)
            await asyncio.wait([ending])

    async def _ended(self, process: Process, started: bool) -> Outcome | None:
        self._returned = True
        if process.returncode == 0 or self._ending == "superseded":
            return None
        if self._ending == "interrupted":
            return Interrupted()
        if not started and process.returncode == -signal.SIGTERM:  # It came before the process could hear it.
            return Interrupted()
        if not started:
            self._returned = False
            return await self._run_here(f"the process ended with {_how(process)} before it could call the handler")
        await self._died(self.claimed, _how(process))
        return None

    async def _run_here(self, why: str) -> Outcome | None:
        log.error("suspect_not_isolated", job_id=self.claimed.job_id, agent=self.claimed.job_type, why=why)
        self._runs_here = True
        return await super().run()


def _kill(process: Process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _how(process: Process) -> str:
    code = process.returncode or 0
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, len(STARTED))
    except BlockingIOError:
        return b""
