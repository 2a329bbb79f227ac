"""The process of one suspect run, started by a worker: `python -m cortex_plane.worker.isolated`. See isolation.py."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

from cortex_plane.cli.logs import adopt_standard_logging, configure_logs
from cortex_plane.cli.planes import load_app
from cortex_plane.clock import SystemClock
from cortex_plane.event_loop import run
from cortex_plane.jobs.model import RunId, WorkerId
from cortex_plane.settings import Settings
from cortex_plane.worker.heartbeat import LentLease
from cortex_plane.worker.isolation import LEASE, STARTED

if TYPE_CHECKING:
    from cortex_plane.plane import Plane
    from cortex_plane.worker.worker import Worker

ORPHANED = 71
PR_SET_PDEATHSIG = 1


def main() -> int:
    # Sent to all processes of a service. The worker receives it too, and tells this process.
    signal.signal(signal.SIGTERM, lambda *_: None)
    orders, marker = _orders(), int(sys.argv[1])
    _end_with_the_worker()
    opening = json.loads(orders.readline())
    sys.path[:] = opening["path"]
    plane = load_app(opening["app"])
    plane.settings = Settings(**opening["settings"])
    configure_logs(plane.settings)
    adopt_standard_logging(plane.settings)
    run(_run(plane, opening, orders, marker))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # Without waiting for threads that a handler has left behind.


def _orders() -> IO[bytes]:
    """The worker's orders arrive on standard input, which the handler must not read."""
    orders = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return orders


def _end_with_the_worker() -> None:
    """Also while a handler keeps the interpreter from running threads; only Linux can do that."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


async def _run(plane: Plane, opening: dict[str, Any], orders: IO[bytes], marker: int) -> None:
    loop = asyncio.get_running_loop()
    async with plane:
        worker = await plane._new_worker(plane._worker_options(None, 1, ""), isolated=True)
        lease = LentLease(SystemClock(), opening["trusted_until"])
        threading.Thread(target=_obey, args=(orders, loop, worker, lease), name="cortex-orders", daemon=True).start()

        def begins() -> None:
            os.write(marker, STARTED)
            os.close(marker)

        await worker.run_one(WorkerId(opening["worker_id"]), RunId(opening["run_id"]), begins, lease.holds)


def _obey(orders: IO[bytes], loop: asyncio.AbstractEventLoop, worker: Worker, lease: LentLease) -> None:
    for line in orders:
        word, _, value = line.decode().strip().partition(" ")
        if word == LEASE:
            lease.renew(float(value))
        else:
            loop.call_soon_threadsafe(worker.obey, word, value)
    os._exit(ORPHANED)  # The worker is gone: results of this run are not accepted any more.


if __name__ == "__main__":
    sys.exit(main())
