"""The heartbeat thread, readiness, and the identity of a process on its host.

Proves that a worker lives: one row for each worker, from a thread that a blocked event loop cannot starve.

A worker trusts itself from the moment at which it *sent* its last acknowledged heartbeat. Past that, or when it
was declared LOST, it stops its own jobs: others may be running them already.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cortex_plane.errors import CortexError, DatabaseConfigError
from cortex_plane.json import dumps, loads
from cortex_plane.worker.loops import BackgroundLoop, Trouble
from cortex_plane.worker.model import Beat
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.stores import Store

BEATS_IN_A_LEASE = 3
TRUSTED_PART_OF_A_LEASE = 0.9
RETRY_SECONDS = 0.5


class Heartbeat:
    """`beat` renews the lease; its answer says whether that succeeded, and whether to drain. `lost` and `drain` are called in the
    event loop: once when the lease is lost, and when an operator drains the worker. Heartbeats continue until it has stopped."""

    def __init__(
        self,
        beat: Callable[[float], int],
        lost: Callable[[str], None],
        clock: Clock,
        lease_seconds: float,
        drain: Callable[[], None] = lambda: None,
    ) -> None:
        self._beat, self._lost, self._drain, self._clock = beat, lost, drain, clock
        self._lease_seconds = lease_seconds
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._trusted_until = clock.elapsed() + lease_seconds * TRUSTED_PART_OF_A_LEASE
        self._beaten_at = clock.elapsed()
        self._beats_in_a_row = 0
        self._trouble = Trouble("heartbeat_failed", "heartbeat_goes_on")
        self._thread = threading.Thread(target=self._run, name="cortex-heartbeat", daemon=True)

    @property
    def settled(self) -> bool:
        """True after two beats without a gap. Only then may it judge other leases: after a machine slept, all look expired."""
        return self._beats_in_a_row >= 2 and self._clock.elapsed() - self._beaten_at < self._lease_seconds / 2

    def lease_holds(self) -> bool:
        """Whether no other worker can have taken over yet, by a clock that counts while the process or machine is suspended."""
        return self._clock.elapsed() < self._trusted_until

    @property
    def trusted_until(self) -> float:
        """By the clock of this machine, which its processes share."""
        return self._trusted_until

    async def begin(self) -> None:
        """Beats once to open its connection. The result is not evaluated."""
        await in_a_thread(partial(self._beat, self._lease_seconds * TRUSTED_PART_OF_A_LEASE))

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        await in_a_thread(self._thread.join)

    def _run(self) -> None:
        pause = self._lease_seconds / BEATS_IN_A_LEASE
        while not self._stop.wait(pause):
            verdict = self._beat_once()
            if verdict is not None:
                self._tell_in_the_loop(partial(self._lost, verdict))
                return
            healthy = self._clock.elapsed() + self._lease_seconds / 2 < self._trusted_until
            pause = self._lease_seconds / BEATS_IN_A_LEASE if healthy else min(RETRY_SECONDS, self._lease_seconds / 10)

    def _beat_once(self) -> str | None:
        """Why the lease is lost, or None."""
        sent_at = self._clock.elapsed()
        try:
            answer = self._beat(max(0.1, self._trusted_until - sent_at))
            if answer == Beat.LOST:
                return "this worker was declared LOST"
            self._acknowledged(sent_at)
            self._trouble.over()
            if answer == Beat.DRAIN:
                self._tell_in_the_loop(self._drain)
        except Exception as error:  # On any error the lease was not renewed.
            self._trouble.tell(error)
        if self._clock.elapsed() >= self._trusted_until:
            return "the lease could not be renewed in time"
        return None

    def _acknowledged(self, sent_at: float) -> None:
        gap = sent_at - self._beaten_at
        self._beats_in_a_row = self._beats_in_a_row + 1 if gap < self._lease_seconds / 2 else 1
        self._beaten_at = sent_at
        self._trusted_until = sent_at + self._lease_seconds * TRUSTED_PART_OF_A_LEASE

    def _tell_in_the_loop(self, what: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)


class LentLease:
    """A worker's lease, seen from the process of an isolated run: as last reported by the worker."""

    def __init__(self, clock: Clock, trusted_until: float) -> None:
        self._clock, self._trusted_until = clock, trusted_until

    def renew(self, trusted_until: float) -> None:
        self._trusted_until = trusted_until

    def holds(self) -> bool:
        return self._clock.elapsed() < self._trusted_until


# -- readiness ---------------------------------------------------------------------------------
# Readiness: the database answers, the schema is current, and every background loop has succeeded recently.


OK = "ok"
ANSWER_SECONDS = 5.0
STALE_SECONDS = 300.0
"""A loop pauses for a minute at most, and one pass may take two."""


async def look_at_database(store: Store) -> str:
    """`ok`, or the kind of problem; no details, because the endpoint is public."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            status = await store.schema.status()
    except DatabaseConfigError:
        return "cannot be used by this version: cortex db status"
    except (CortexError, TimeoutError):
        return "does not answer"
    return OK if not status.pending else f"lacks {len(status.pending)} migrations: cortex db upgrade"


def describe_loops(loops: Iterable[BackgroundLoop]) -> dict[str, str]:
    """Of several loops with one name, the one with the oldest success counts."""
    found: dict[str, str] = {}
    for loop in loops:
        seconds = loop.seconds_since_good()
        if seconds >= STALE_SECONDS:
            found[f"loop {loop.name}"] = f"last went well {seconds:.0f} s ago"
        else:
            found.setdefault(f"loop {loop.name}", OK)
    return found


# -- process identity --------------------------------------------------------------------------
# Detects whether the process of another worker has ended, if both are on one machine and in one pid namespace.
#
# A pid alone says nothing: it is used again, and containers have pids of their own. So a process is known by its host,
# the boot of
# its machine, its pid namespace, its pid and its start time. Where any of these is not known, nobody is judged.


PROC = Path("/proc")


class Identity(NamedTuple):
    host: str
    boot: str
    namespace: str
    pid: int
    started: int

    def to_text(self) -> str:
        return dumps(list(self))

    @property
    def machine(self) -> str:
        """The common prefix of the identities of all processes that can see this one."""
        return dumps(list(self[:3])).removesuffix("]") + ","

    @classmethod
    def from_text(cls, text: str) -> Identity:
        return cls(*loads(text))


def own_process() -> Identity | None:
    """None if the system does not provide enough information."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(PROC / "self/ns/pid")
        pid = os.getpid()
        started = _started(pid)
    except (OSError, ValueError):
        return None
    return None if started is None else Identity(socket.gethostname(), boot, namespace, pid, started)


def is_gone(other: Identity, own: Identity | None) -> bool:
    """Whether that process has certainly ended. False if this process cannot know."""
    if own is None or other[:3] != own[:3]:
        return False
    try:
        os.kill(other.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # It belongs to another user, and is alive.
    try:
        return _started(other.pid) != other.started
    except (OSError, ValueError):
        return False


def _started(pid: int) -> int | None:
    """In clock ticks since boot; None for a zombie."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
